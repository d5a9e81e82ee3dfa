"""Recognise the files that torch writes from the outside: nothing is unpickled."""

from __future__ import annotations

import pickletools
from typing import IO, TYPE_CHECKING
from zipfile import BadZipFile, ZipFile

from enginebay.errors import ModelSourceError
from enginebay.ir.model import SUFFIXES, IRKind, check_regular

if TYPE_CHECKING:
    from pathlib import Path

_WANTED: dict[IRKind, str] = {
    "torchscript": "TorchScript (torch.jit.save)",
    "exported_program": "an exported program (torch.export.save)",
}

_BUILD = "build the model in Python and name it: file.py:attr"

_STATE_DICT = "pickled weights (a state_dict), not a model"


def check_archive(path: Path, kind: IRKind) -> None:
    """Make sure that a file is a torch archive of this kind.

    Raises:
        ModelSourceError: It is missing, empty, cut short, or something else; the message says what
            it is, and the hint what to do with that.
    """
    check_regular(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            start = stream.read(512)
    except FileNotFoundError as err:
        raise ModelSourceError(f"no file '{path}'") from err
    except OSError as err:
        raise ModelSourceError(f"'{path}' cannot be read: {err.strerror}") from err
    if not size:
        raise ModelSourceError(f"'{path}' is empty")
    try:
        with ZipFile(path) as archive:
            _check_start(archive)
            _check_members(path, archive, kind)
    except ModelSourceError:
        raise
    # One wrong bit, and zipfile raises its own error, UnicodeError, NotImplementedError, zlib's.
    except Exception as err:
        raise _foreign(path, _not_zip(path, start), kind) from err


def _check_start(archive: ZipFile) -> None:
    # A program that is cut short can end with a whole archive of another kind: the example inputs
    # are one, inside it. zipfile would take that for the file.
    if min((member.header_offset for member in archive.infolist()), default=0):
        raise BadZipFile("the archive does not start where the file does")
    if archive.testzip():  # torch reads past a wrong bit
        raise BadZipFile("a checksum is wrong")


def _check_members(path: Path, archive: ZipFile, kind: IRKind) -> None:
    # Every member lies in one folder, named after the file at the time it was saved.
    members = {name.partition("/")[2] or name: name for name in archive.namelist()}
    found = _kind(members)
    if found is None and "data.pkl" in members:
        with archive.open(members["data.pkl"]) as stream:
            raise _foreign(path, _pickled(stream), kind)
    if found is None:
        raise _foreign(path, "a zip archive", kind)
    if found != kind:
        message = f"'{path}' holds {_WANTED[found]}, wanted {_WANTED[kind]}"
        raise ModelSourceError(message, hint=f"give it the suffix {SUFFIXES[found]}")
    _check_constants(path, members)


def _kind(members: dict[str, str]) -> IRKind | None:
    if "constants.pkl" in members and any(name.startswith("code/") for name in members):
        return "torchscript"
    if "archive_format" in members or "serialized_exported_program.json" in members:
        return "exported_program"
    return None


def _check_constants(path: Path, members: dict[str, str]) -> None:
    """An exported program may carry Python objects; torch would unpickle these."""
    for name in members:
        folder, _, file = name.rpartition("/")
        if folder.endswith("data/constants") and file.startswith(("custom_obj", "opaque_obj")):
            message = f"'{path}' carries a pickled Python object ({name}), which is never loaded"
            raise ModelSourceError(message, hint=_BUILD)


def _not_zip(path: Path, start: bytes) -> str:
    if start.startswith(b"PK"):
        return "a damaged archive (cut short?)"
    if start.startswith(b"\x80"):
        with path.open("rb") as stream:
            return _pickled(stream)
    return "a text file" if start.isascii() and b"\0" not in start else "of an unknown format"


def _pickled(stream: IO[bytes]) -> str:
    """The content of a pickle, by the first class that it names."""
    try:
        names = (arg for opcode, arg, _ in pickletools.genops(stream) if opcode.name == "GLOBAL")
        first = str(next(names, "")).replace(" ", ".")
    except (ValueError, EOFError):
        return "a damaged pickle"
    if not first or first.startswith(("collections.", "torch._utils.", "torch.FloatStorage")):
        return _STATE_DICT
    return f"a pickled '{first}', and unpickling runs code"


def _foreign(path: Path, found: str, kind: IRKind) -> ModelSourceError:
    weights = f"name the model that they are for: file.py:attr --weights {path}"
    hint = weights if found == _STATE_DICT else _BUILD
    return ModelSourceError(f"'{path}' is {found}; wanted {_WANTED[kind]}", hint=hint)
