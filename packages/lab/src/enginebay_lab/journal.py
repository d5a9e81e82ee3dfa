"""JSON Lines files that stay readable after a full disk or a killed process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.authors.files import write_whole
from enginebay.errors import UsageError, disk_error, disk_failure, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.errors import Hint

_T = TypeVar("_T")

#: The schema version of the lab's records; it grows when a field is removed or its meaning changes.
SCHEMA = 1
#: Every line begins with this; such a line that is not valid JSON was cut short.
_LINE_START = b'{"kind":'


class _Head(msgspec.Struct, frozen=True):
    """The fields with which every line of a :class:`Journal` begins."""

    kind: str
    schema: int


class Journal:
    """A JSON Lines file to which several processes may append.

    Each line is a JSON object with the fields of one record, such as a row of a sweep.

    Args:
        path: The file; None to write no file.
        kind: The value of the field ``kind`` in each line, such as ``sweep row``.
    """

    def __init__(self, path: Path | None, kind: str) -> None:
        self.path = path
        self._kind = kind
        self._is_torn = False

    def open(self, *, resume: bool, hint: str | Hint) -> None:
        """Create the file, or accept an existing file if ``resume`` is True.

        Args:
            resume: Accept a file that already exists.
            hint: What to type if the file exists, for the hint of the UsageError.

        Raises:
            UsageError: The file exists and ``resume`` is False.
            OSError: The file cannot be written.
        """
        if self.path is None:
            return
        try:
            # Early: a path that cannot be written must fail before any measurement.
            with self.path.open("ab" if resume else "xb"):
                pass
        except FileExistsError as err:
            raise UsageError(f"'{self.path}' already exists", hint=hint) from err

    def append(self, record: Any) -> None:
        """Append a record to the file, and flush the file to the disk (``fsync``).

        Args:
            record: A Struct, or a dict with field names as keys.

        Raises:
            EnginebayError: The disk is full or read-only.
            OSError: The file cannot be written for another reason.
        """
        if self.path is None:
            return
        fields = msgspec.to_builtins(record) if isinstance(record, msgspec.Struct) else record
        data = msgspec.json.encode({"kind": self._kind, "schema": SCHEMA, **fields})
        # A line that was cut short is ended first: the rest of the file stays readable.
        line = (b"\n" if self._is_torn else b"") + data + b"\n"
        self._is_torn = True  # until the write has succeeded
        try:
            # One unbuffered write, so that lines of several processes do not mix.
            with self.path.open("ab", buffering=0) as file:
                written = file.write(line)
                while written < len(line):  # the disk is full: the next write raises
                    written += file.write(line[written:])
                os.fsync(file.fileno())
        except OSError as err:
            err.filename = str(self.path)  # a failed write sets no file name
            if disk_error(err):
                raise disk_failure(err) from err
            raise
        self._is_torn = False

    def read(self, record: type[_T]) -> list[tuple[bytes, _T]]:
        """Return each line with its decoded record; skip lines that a killed process cut short.

        Args:
            record: The class of the records.

        Raises:
            UsageError: A line is not a record of this kind and schema version.
            OSError: The file cannot be read.
        """
        data = self.path.read_bytes() if self.path and self.path.exists() else b""
        self._is_torn = bool(data) and not data.endswith(b"\n")
        return [
            (line, self._decode_line(number, line, record))
            for number, line in enumerate(data.split(b"\n"), 1)
            if line.strip() and not _is_cut_short(line)
        ]

    def replace(self, data: bytes) -> None:
        """Replace the contents of the file, with an atomic rename."""
        assert self.path is not None
        write_whole(self.path, data)
        self._is_torn = False

    def _decode_line(self, number: int, line: bytes, record: type[_T]) -> _T:
        try:
            head = decode_json(line, _Head)
            if (head.kind, head.schema) == (self._kind, SCHEMA):
                return decode_json(line, record)
        except msgspec.DecodeError as err:
            # A wrong first line means another kind of file; a later one, a damaged file.
            headline = (
                f"'{self.path}' contains no {self._kind}s"
                if number == 1
                else f"line {number} of '{self.path}' contains no {self._kind}"
            )
            raise UsageError(f"{headline}: {err}", hint="name a different file") from err
        raise UsageError(
            f"'{self.path}' contains {head.kind}s of version {head.schema}; expected {self._kind}s "
            f"of version {SCHEMA}",
            hint="name a different file",
        )


def _is_cut_short(line: bytes) -> bool:
    if not _LINE_START.startswith(line[: len(_LINE_START)]):
        return False
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    except RecursionError:
        pass  # nested too deeply to know whether it is complete: read() raises on it
    return False


def decode_json(data: bytes, kind: type[_T]) -> _T:
    """Decode JSON from an untrusted file, and return the decoded object.

    Args:
        data: The JSON text in UTF-8.
        kind: The expected type, such as a Struct.

    Raises:
        DecodeError: The bytes are not UTF-8, not JSON of this type, or nested too deeply for
            Python's stack.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError as err:
        raise msgspec.DecodeError("the JSON is nested too deeply") from err
    except UnicodeDecodeError as err:
        raise msgspec.DecodeError(str(err)) from err


def similar_file(path: Path) -> str | None:
    """Return a hint that names an existing file with a similar name; None without such a file."""
    # exists(): glob() lists broken links too.
    close = nearest(path.name, [file.name for file in path.parent.glob("*") if file.exists()])
    return f"did you mean '{path.with_name(close)}'?" if close and path.name else None
