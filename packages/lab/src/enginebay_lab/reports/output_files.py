"""The files that a report may be written to: by their suffix, and none but another report's."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from enginebay.errors import MissingDependencyError, UsageError, check_text
from enginebay_lab.journal import decode_json

#: What every page begins with, and by which a page is known as a report.
GENERATOR = '<meta name="generator" content="enginebay report">'
_SUFFIXES = (".html", ".json")
#: As many bytes of a page as :data:`GENERATOR` is looked for in.
_HEAD = 1000


class _Known(msgspec.Struct, frozen=True):
    """The field by which the JSON document of a report is known."""

    kind: Literal["report"]


def check_output(path: str | Path) -> Path:
    """Refuse a file that a report cannot be written to, before anything is measured for it.

    Raises:
        UsageError: It ends otherwise, its folder is a file, or it is no report.
        MissingDependencyError: It is a page, and Jinja2 or pygal is not installed.
    """
    path = Path(path)
    check_text(str(path))
    if path.suffix not in _SUFFIXES:
        raise UsageError(
            f"'{path}' does not end with .html or .json, by which a report is written",
            hint=f"name it {path.with_suffix('.html').name}" if path.stem else None,
        )
    above = next(each for each in path.absolute().parents if each.exists())
    if not above.is_dir():
        raise UsageError(f"'{above}' is no folder for the report", hint="name another one")
    if path.exists() and not (path.is_file() and _is_report(path)):
        raise UsageError(
            f"'{path}' exists and is no report, so it is not replaced", hint="name another file"
        )
    if path.suffix == ".html":
        check_packages()
    return path


def check_packages() -> None:
    """Import what a page is made with.

    Raises:
        MissingDependencyError: Jinja2 or pygal is not installed.
    """
    try:
        import jinja2  # noqa: F401  # imported to see that it is there

        from enginebay_lab.reports.svg_plots import import_pygal

        import_pygal()
    except ImportError as err:
        raise MissingDependencyError(
            f"a report as a page needs Jinja2 and pygal, and {err.name} is not installed",
            hint="pip install 'enginebay-lab[report]', or write the report as .json",
        ) from err


def _is_report(path: Path) -> bool:
    data = path.read_bytes()
    if GENERATOR.encode() in data[:_HEAD]:
        return True
    try:
        decode_json(data, _Known)
    except msgspec.DecodeError:
        return not data  # an empty file, as mktemp makes one, is no loss
    return True
