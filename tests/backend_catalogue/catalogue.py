"""The catalogue: the claims, conformance results and operators of each backend."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

import msgspec

from enginebay_testing.conformance.catalogue import (
    COLUMNS,
    count_operators,
    describe_laws,
    describe_operators,
)
from enginebay_testing.conformance.report import Claims, Report
from tests.zoo.page import markdown

ROOT = Path(__file__).parents[2]
ENTRIES = ROOT / "docs" / "evidence" / "backend-catalogue.toml"
PAGE = ROOT / "docs" / "evidence" / "backend-catalogue.md"
KEPT = Path(__file__).with_name("kept.json")

#: The folder into which ``nox -s backend-catalogue`` writes its reports.
MADE = ROOT / "build" / "catalogue"

TEXT = """\
# Catalogue of backends

Made by `nox -s backend-catalogue`, which installs each backend alone with the newest Enginebay,
runs the [conformance tests](../reference/conformance-tests.md), and tries some 300 networks of one
operator each; or from the report of these tests that a backend's own repository publishes.

{backends}

*Laws* counts the passed tests of all that apply: few apply to a backend whose device no test
machine has. *Operators* are verified, refused with a reason, or neither. [Backend
support](backend-support.md) has the result of every test for Enginebay's own backends.

## Formats, devices and types

{claims}

## Operators that are neither verified nor refused

{wrong}

## Add yours

Three or four lines in a pull request, in
[backend-catalogue.toml](https://github.com/enginebay/enginebay/blob/main/docs/evidence/backend-catalogue.toml):

```toml
[myengine]
install = "enginebay-myengine"
home = "https://github.com/you/enginebay-myengine"
report = "https://raw.githubusercontent.com/you/enginebay-myengine/conformance/myengine.json"
```

With `report`, the row comes from your own tests: `pytest --conformance-report report` writes
`myengine.json`, the same row in `myengine.md`, and `myengine-badge.json`. The workflow of a package
from `enginebay new-backend` publishes all three on its branch `conformance`, where a README finds
the [badge](https://shields.io/badges/endpoint-badge):

```text
![Enginebay](https://img.shields.io/endpoint?url=https://raw.githubusercontent.com/you/enginebay-myengine/conformance/myengine-badge.json)
```
"""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entry that a backend's authors write.

    Attributes:
        install: The argument of ``pip install``.
        home: The address of the backend's website.
        report: The address of the kit's report, if the backend's repository publishes it.
    """

    install: str
    home: str
    report: str = ""


class Row(msgspec.Struct, frozen=True):
    """The results of a backend.

    Attributes:
        version: The version of its distribution.
        core: The versions of Enginebay that it supports.
        engine: The engine's version; empty if it is not installed.
        claims: The fields of its ``BackendInfo``.
        laws: The number of laws with each outcome.
        operators: The number of operators with each outcome.
        wrong: The operators that are neither verified nor refused.
    """

    version: str
    core: str
    engine: str
    claims: Claims
    laws: dict[str, int]
    operators: dict[str, int]
    wrong: tuple[str, ...]


def entries() -> dict[str, Entry]:
    """Return the backends of the catalogue, by name."""
    return msgspec.toml.decode(ENTRIES.read_bytes(), type=dict[str, Entry])


def made(path: Path) -> Row | None:
    """Return the results of a session; None if it has not run."""
    return read_row(path.read_bytes()) if path.exists() else None


def published(entry: Entry) -> Row | None:
    """Return the results that the backend's own repository publishes; None if it does not."""
    if not entry.report:
        return None
    with urlopen(entry.report, timeout=60) as stream:  # an address of the catalogue
        return read_row(stream.read())


def read_row(content: bytes) -> Row:
    """Return the results in a report of the kit."""
    report = msgspec.json.decode(content, type=Report)
    return Row(
        version=report.version,
        core=report.core,
        engine=report.engine_version,
        claims=report.claims,
        laws=dict(report.counts),
        operators=count_operators(report),
        wrong=tuple(one.case for one in report.operators if one.outcome == "broken"),
    )


def load(path: Path) -> dict[str, Row]:
    """Return the stored rows by backend."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Row]) if path.exists() else {}


def save(rows: dict[str, Row], path: Path) -> None:
    """Write the rows, indented, so that a diff shows changes line by line."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")


def render(wanted: dict[str, Entry], rows: dict[str, Row]) -> str:
    """Return the page in Markdown."""
    found = {name: rows[name] for name in wanted if name in rows}
    said = [(name, row.claims) for name, row in found.items()]
    return TEXT.format(
        backends=markdown([*COLUMNS], [_row(name, each, rows) for name, each in wanted.items()]),
        claims=markdown(
            ["", "IRs", "devices", "precisions", "dtypes"],
            [
                [name, *map(", ".join, (one.irs, one.devices, one.precisions, one.dtypes))]
                for name, one in said
            ],
        ),
        wrong=markdown(
            ["backend", "operators"],
            [[name, _code(row.wrong)] for name, row in found.items() if row.wrong],
        ),
    )


def _row(name: str, entry: Entry, rows: dict[str, Row]) -> list[str]:
    cells = [f"[{name}]({entry.home})", f"`{entry.install}`"]
    if name not in rows:
        return [*cells, "", "", "not tried yet", ""]
    row = rows[name]
    laws, operators = describe_laws(row.laws), describe_operators(row.operators)
    return [*cells, row.core.replace(",", ", "), row.engine, laws, operators]


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name.partition(': ')[2]}`".replace("|", "\\|") for name in names)
