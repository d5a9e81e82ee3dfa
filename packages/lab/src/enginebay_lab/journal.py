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

#: The version of what the lab writes; it grows when a field is removed or changes its meaning.
SCHEMA = 1
#: What a line begins with; one that does and is no JSON was cut short.
_BEGINNING = b'{"kind":'


class _Head(msgspec.Struct, frozen=True):
    """What every line has beside a record's fields."""

    kind: str
    schema: int


class Journal:
    """A file with a record on each line; each is on the disk before the next one is made.

    Several processes may append to one file.

    Args:
        path: The file; None to write nothing.
        kind: What a record is, which each line says first: ``sweep row``.
    """

    def __init__(self, path: Path | None, kind: str) -> None:
        self.path = path
        self._kind = kind
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
        if self.path is None:
            return
        try:
            with self.path.open("ab" if resume else "xb"):
                pass
        except FileExistsError as err:
            raise UsageError(f"'{self.path}' exists already", hint=hint) from err

    def append(self, record: Any) -> None:
        """Write a record, a Struct or a dict with names as keys.

        Raises:
            EnginebayError: The disk is full or read-only.
            OSError: It cannot be written for another reason.
        """
        if self.path is None:
            return
        fields = msgspec.to_builtins(record) if isinstance(record, msgspec.Struct) else record
        data = msgspec.json.encode({"kind": self._kind, "schema": SCHEMA, **fields})
        line = (b"\n" if self._torn else b"") + data + b"\n"
        self._torn = True
        try:
            with self.path.open("ab", buffering=0) as file:
                written = file.write(line)
                while written < len(line):  # the disk is full: the next write says so
                    written += file.write(line[written:])
                os.fsync(file.fileno())
        except OSError as err:
            err.filename = str(self.path)  # a failed write has none
            if disk_error(err):
                raise disk_failure(err) from err
            raise
        self._torn = False

    def read(self, record: type[_T]) -> list[tuple[bytes, _T]]:
        """The lines and their records; a line that a killed writer cut short is left out.

        Args:
            record: What the records are.

        Raises:
            UsageError: The file holds something else, or records of another version.
            OSError: It cannot be read.
        """
        data = self.path.read_bytes() if self.path and self.path.exists() else b""
        self._torn = bool(data) and not data.endswith(b"\n")
        found = []
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip() and not _is_cut_short(line):
                found.append((line, self._record(number, line, record)))
        return found

    def replace(self, data: bytes) -> None:
        """Write other lines in place of all that are there; see :func:`write_whole`."""
        assert self.path is not None
        write_whole(self.path, data)
        self._torn = False

    def _record(self, number: int, line: bytes, record: type[_T]) -> _T:
        try:
            head = decode_json(line, _Head)
            if (head.kind, head.schema) == (self._kind, SCHEMA):
                found: _T = decode_json(line, record)
                return found
        except msgspec.DecodeError as err:
            where = "'{}' holds no {}s" if number == 1 else f"line {number} of '{{}}' is no {{}}"
            message = f"{where.format(self.path, self._kind)}: {err}"
            raise UsageError(message, hint="name another file") from err
        raise UsageError(
            f"'{self.path}' holds {head.kind}s of version {head.schema}, wanted {self._kind}s of "
            f"version {SCHEMA}",
            hint="name another file",
        )


def _is_cut_short(line: bytes) -> bool:
    if not _BEGINNING.startswith(line[: len(_BEGINNING)]):
        return False
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    except RecursionError:
        pass
    return False


def decode_json(data: bytes, kind: Any = Any) -> Any:
    """Read JSON that may be anybody's.

    Args:
        data: The bytes.
        kind: What it is read as.

    Raises:
        DecodeError: It is none, not of this kind, no text, or nested deeper than Python's stack.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError as err:
        raise msgspec.DecodeError("it is nested too deeply") from err
    except UnicodeDecodeError as err:
        raise msgspec.DecodeError(str(err)) from err


def similar_file(path: Path) -> str | None:
    """Suggest the file beside a missing one that its name is most like; None where none is."""
    close = nearest(path.name, [each.name for each in path.parent.glob("*") if each.exists()])
    return f"did you mean '{path.with_name(close)}'?" if close and path.name else None
