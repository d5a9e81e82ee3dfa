"""Files with a record on each line, which no full disk and no killed writer spoils."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.authors import write_whole
from enginebay.errors import UsageError, disk_error, disk_failure, nearest

if TYPE_CHECKING:
    from pathlib import Path

_T = TypeVar("_T")

#: What a line begins with; one that does and is no JSON was cut short.
_BEGINNING = b'{"schema":'


class _Line(msgspec.Struct, frozen=True):
    """What every line has beside a record's fields."""

    schema: int


class JsonLines:
    """A file with a record on each line; each is on the disk before the next one is made.

    Several processes may append to one file.

    Args:
        path: The file.
        schema: The version of the records, which each line carries.
    """

    def __init__(self, path: Path, schema: int) -> None:
        self._path = path
        self._schema = schema
        self._torn = False

    def open(self, *, resume: bool, hint: str) -> None:
        """Make the file, so that what cannot be written fails before anything is measured.

        Args:
            resume: It may be there already.
            hint: What to do where it may not.

        Raises:
            UsageError: It is there already.
            OSError: It cannot be written.
        """
        try:
            with self._path.open("ab" if resume else "xb"):
                pass
        except FileExistsError as err:
            raise UsageError(f"'{self._path}' exists already", hint=hint) from err

    def append(self, record: Any) -> None:
        """Write a record, a Struct or a dict with names as keys.

        Raises:
            EnginebayError: The disk is full or read-only.
            OSError: It cannot be written for another reason.
        """
        fields = msgspec.to_builtins(record) if isinstance(record, msgspec.Struct) else record
        data = msgspec.json.encode({"schema": self._schema, **fields})
        line = (b"\n" if self._torn else b"") + data + b"\n"
        self._torn = True
        try:
            with self._path.open("ab", buffering=0) as file:
                written = file.write(line)
                while written < len(line):  # the disk is full: the next write says so
                    written += file.write(line[written:])
                os.fsync(file.fileno())
        except OSError as err:
            err.filename = str(self._path)  # a failed write has none
            if disk_error(err):
                raise disk_failure(err) from err
            raise
        self._torn = False

    def read(self, kind: type[_T], what: str) -> list[tuple[bytes, _T]]:
        """The lines and their records; a line that a killed writer cut short is left out.

        Args:
            kind: What the records are.
            what: The same in messages: ``an evaluation``.

        Raises:
            UsageError: The file holds something else, or records of another version.
            OSError: It cannot be read.
        """
        data = self._path.read_bytes() if self._path.exists() else b""
        self._torn = bool(data) and not data.endswith(b"\n")
        found = []
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip() and not _is_cut_short(line):
                found.append((line, self._record(number, line, kind, what)))
        return found

    def replace(self, data: bytes) -> None:
        """Write other lines in place of all that are there; see :func:`write_whole`."""
        write_whole(self._path, data)
        self._torn = False

    def _record(self, number: int, line: bytes, kind: type[_T], what: str) -> _T:
        try:
            version = msgspec.json.decode(line, type=_Line).schema
            if version == self._schema:
                return msgspec.json.decode(line, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as err:
            where = f"'{self._path}' holds no rows" if number == 1 else self._line(number)
            raise UsageError(f"{where} of {what}", hint="name another file") from err
        raise UsageError(
            f"'{self._path}' has rows in version {version} of their form; this Enginebay reads "
            f"{self._schema}",
            hint="name another file",
        )

    def _line(self, number: int) -> str:
        return f"line {number} of '{self._path}' is no row"


def _is_cut_short(line: bytes) -> bool:
    if not _BEGINNING.startswith(line[: len(_BEGINNING)]):
        return False
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return False


def similar_file(path: Path) -> str | None:
    """Suggest the file beside a missing one that its name is most like; None where none is."""
    close = nearest(path.name, [each.name for each in path.parent.glob("*") if each.exists()])
    return f"did you mean '{path.with_name(close)}'?" if close and path.name else None
