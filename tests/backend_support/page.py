"""The page in the docs, made from the stored reports and the zoo's results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay_testing.conformance.suite import laws
from tests.zoo.page import markdown
from tests.zoo.results import COLUMNS

from .reports import ROOT, STAND_INS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.zoo.results import Results

    from .reports import Kept, LeftOut

PAGE = ROOT / "docs" / "evidence" / "backend-support.md"

TEXT = """\
# Backend support

Generated from three sources, none written by hand: each plugin's `BackendInfo`, the results of the
[conformance tests](../reference/conformance-tests.md), and the [zoo](zoo.md).

## Formats, devices and types

{claims}

IRs are in order of preference. The first device and the first precision are the defaults.

## Results of the conformance tests

{versions} The tests cover the IRs, dtypes and shapes that a backend lists, on its default device
and in its default precision. Other devices and precisions are not measured here.

✓: passed. `n of m`: n of its m cases passed. –: skipped, for a reason in the list below.

{laws}

In the column `{stand_ins}` the parser and the builder are NVIDIA's own. Stand-ins
replace the driver and the runtime, and ONNX Runtime computes. The column shows that the backend's
code works, and nothing about TensorRT's numbers. The columns `tensorrt`, which has only the
bindings, and `tensorrt-rtx` have no stand-ins and no GPU.

## Skipped tests

{left_out}

## Models of the zoo

{zoo}

*Built* is not a verdict: the engine was parsed and built without a GPU, for a GPU that no test
machine has. Engines that are not in this table were not measured, because their device is missing.
"""


def render(kept: dict[str, Kept], zoo: Results) -> str:
    """Return the page in Markdown."""
    backends = {name: report for name, report in kept.items() if name != STAND_INS}
    return TEXT.format(
        claims=_claims(backends),
        versions=_versions(backends),
        laws=_laws(kept),
        stand_ins=STAND_INS,
        left_out=_left_out(kept),
        zoo=_zoo(zoo),
    )


def _claims(backends: dict[str, Kept]) -> str:
    claims = [report.claims for report in backends.values()]
    rows = [
        ["IRs", *(", ".join(each.irs) for each in claims)],
        ["devices", *(", ".join(each.devices) for each in claims)],
        ["precisions", *(", ".join(each.precisions) for each in claims)],
        ["dtypes of inputs and outputs", *(", ".join(each.dtypes) for each in claims)],
        ["several shapes from one artifact", *(_yes(each.dynamic_shapes) for each in claims)],
        ["runtime", *(_requirements(each.runtime_distributions) for each in claims)],
    ]
    return markdown(["", *backends], rows)


def _yes(held: bool) -> str:
    return "yes" if held else "no"


def _requirements(texts: tuple[str, ...]) -> str:
    return " and ".join(f"`{text}`".replace(" | ", "` or `") for text in texts)


def _versions(backends: dict[str, Kept]) -> str:
    found = [
        f"{name} {report.engine_version}"
        for name, report in backends.items()
        if report.engine_version
    ]
    return f"With {', '.join(found)}."


def _laws(kept: dict[str, Kept]) -> str:
    rows = []
    for law in laws():
        sentence = law.sentence.replace("``", "`")
        cells = [_outcome(report.laws[law.name]) for report in kept.values()]
        rows.append([law.family, sentence, *cells])
    totals = [f"**{report.counts['held']} of {report.counts.total()}**" for report in kept.values()]
    return markdown(["about", "law", *kept], [*rows, ["", "**cases held**", *totals]])


def _outcome(outcomes: dict[str, int]) -> str:
    held, cases = outcomes.get("held", 0), sum(outcomes.values())
    if "broken" in outcomes:
        return f"**{outcomes['broken']} broken**"
    if held in (0, cases):
        return "✓" if held else "–"
    return f"{held} of {cases}"


def _left_out(kept: dict[str, Kept]) -> str:
    rows: dict[tuple[str, str], list[str]] = {}
    for name, report in kept.items():
        reasons: dict[str, list[LeftOut]] = {}
        for one in report.left_out:
            reasons.setdefault(one.reason, []).append(one)
        for reason, found in reasons.items():
            rows.setdefault((_told(found), reason), []).append(name)
    return markdown(
        ["law", "backends", "why"],
        [[law, ", ".join(names), reason] for (law, reason), names in rows.items()],
    )


def _told(found: list[LeftOut]) -> str:
    """Return the names of a few laws, or the number of many."""
    names = dict.fromkeys(one.law for one in found)
    if len(names) > 3:
        return f"{len(found)} cases of {len(names)} laws"
    return ", ".join(map(_title, found))


def _title(one: LeftOut) -> str:
    case = f" ({one.case})" if one.case else ""
    opted_out = ", by the backend itself" if one.outcome == "excused" else ""
    return f"`{one.law}`{case}{opted_out}"


def _zoo(results: Results) -> str:
    return markdown(["", "verified", "built", "models"], list(_counts(results)))


def _counts(results: Results) -> Iterator[list[str]]:
    for column in COLUMNS:
        states = [cell.state for cell in results.cells if cell.column == column]
        found = (states.count("verified"), states.count("built"), len(states))
        yield [column.title, *map(str, found)]
