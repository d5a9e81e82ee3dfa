"""Checks that a report can be written to a file without replacing another kind of file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from enginebay.errors import UsageError, check_text
from enginebay_lab.journal import decode_json

#: The first element of every page, which identifies a page as a report.
GENERATOR = '<meta name="generator" content="enginebay report">'
_SUFFIXES = (".html", ".json")
#: The number of bytes at a file's start in which :data:`GENERATOR` is searched.
_HEAD_BYTES = 1000


class _ReportKind(msgspec.Struct, frozen=True):
    """The field that identifies the JSON document of a report."""

    kind: Literal["report"]


def check_output(path: str | Path) -> Path:
    """Check the path of a report before anything is measured, and return a ``Path``.

    Raises:
        UsageError: The suffix is neither ``.html`` nor ``.json``, the parent is not a folder, or
            the file exists and is not a report.
    """
    path = Path(path)
    check_text(str(path))
    if path.suffix not in _SUFFIXES:
        raise UsageError(
            f"the report's name '{path}' does not end with .html or .json",
            hint=f"name the report {path.with_suffix('.html').name}" if path.stem else None,
        )
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise UsageError(f"'{above}' is not a folder", hint="name a different folder")
    if path.exists() and not (path.is_file() and _is_report(path)):
        raise UsageError(
            f"'{path}' exists and is not a report, so it is not replaced",
            hint="name a different file",
        )
    return path


def _is_report(path: Path) -> bool:
    data = path.read_bytes()
    if GENERATOR.encode() in data[:_HEAD_BYTES]:
        return True
    try:
        decode_json(data, _ReportKind)
    except msgspec.DecodeError:
        return not data  # an empty file, as mktemp makes one, may be replaced
    return True
