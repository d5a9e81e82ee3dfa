"""Detection of a torch archive's kind without unpickling, which could run code."""

from __future__ import annotations

import pickletools
from typing import IO, TYPE_CHECKING
from zipfile import BadZipFile, ZipFile

from enginebay.errors import ModelSourceError
from enginebay.ir.model import SUFFIXES
from enginebay.ir.model_file import check_file

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.params import IRKind

_KIND_NAMES: dict[IRKind, str] = {
    "torchscript": "TorchScript (torch.jit.save)",
    "exported_program": "an exported program (torch.export.save)",
}

_BUILD_HINT = "build the model in Python and name it: file.py:attr"

_ZIP = "a zip archive"
_PACKAGE = "a torch.package archive, which is not loaded since its Python code would run"

_STATE_DICT = "pickled weights (a state_dict), not a model"


def check_archive(path: Path, kind: IRKind) -> None:
    """Check that a file is a torch archive of the expected kind.

    Raises:
        ModelSourceError: The file is missing, empty, truncated or of another format; the
            message tells this format.
    """
    check_file(path)
    try:
        with ZipFile(path) as archive:
            _check_start(archive)
            _check_members(path, archive, kind)
    except ModelSourceError:
        raise
    # A wrong bit makes zipfile raise BadZipFile, UnicodeError, NotImplementedError or zlib.error.
    except Exception as err:
        raise _format_error(path, _describe_non_zip(path), kind) from err


def is_torchscript(path: Path) -> bool:
    """Return True if a file is a TorchScript archive, whatever its suffix."""
    try:
        with ZipFile(path) as archive:
            return _detect_kind(_list_members(archive)) == "torchscript"
    except Exception:  # noqa: BLE001  # no file, no archive, or a damaged one: see check_archive()
        return False


def _check_start(archive: ZipFile) -> None:
    # The example inputs in a program are an archive themselves. If the file is truncated after
    # them, zipfile would read this inner archive.
    if min((member.header_offset for member in archive.infolist()), default=0):
        raise BadZipFile("the archive does not start at the beginning of the file")
    if archive.testzip():  # torch does not verify checksums
        raise BadZipFile("a checksum is wrong")


def _check_members(path: Path, archive: ZipFile, kind: IRKind) -> None:
    members = _list_members(archive)
    found_kind = _detect_kind(members)
    if found_kind is None and "data.pkl" in members:
        with archive.open(members["data.pkl"]) as stream:
            raise _format_error(path, _describe_pickle(stream), kind)
    if found_kind is None:
        raise _format_error(path, _PACKAGE if ".data/extern_modules" in members else _ZIP, kind)
    if found_kind == "exported_program" and any(
        name.startswith("data/aotinductor/") for name in members
    ):
        raise ModelSourceError(
            f"'{path}' is a package of AOTInductor, compiled for one machine, which leads back to "
            "no model",
            hint="pass the program that it was compiled from: torch.export.save(program, 'm.pt2')",
        )
    if found_kind != kind:
        message = f"'{path}': expected {_KIND_NAMES[kind]}, found {_KIND_NAMES[found_kind]}"
        raise ModelSourceError(
            message, hint=f"rename the file to the suffix {SUFFIXES[found_kind]}"
        )
    _check_constants(path, members)


def _list_members(archive: ZipFile) -> dict[str, str]:
    # All members are in one folder, which torch.save named after the original file.
    return {name.partition("/")[2] or name: name for name in archive.namelist()}


def _detect_kind(members: dict[str, str]) -> IRKind | None:
    if "constants.pkl" in members and any(name.startswith("code/") for name in members):
        return "torchscript"
    if "archive_format" in members or "serialized_exported_program.json" in members:
        return "exported_program"
    return None


def _check_constants(path: Path, members: dict[str, str]) -> None:
    """Refuse an exported program whose constants contain pickled Python objects."""
    # torch would unpickle these files, and thereby run their code.
    for name in members:
        folder, _, file = name.rpartition("/")
        if folder.endswith("data/constants") and file.startswith(("custom_obj", "opaque_obj")):
            message = f"'{path}' contains a pickled Python object ({name}), which is never loaded"
            raise ModelSourceError(message, hint=_BUILD_HINT)


def _describe_non_zip(path: Path) -> str:
    with path.open("rb") as stream:
        start = stream.read(512)
        if start.startswith(b"\x80"):
            stream.seek(0)
            return _describe_pickle(stream)
    if start.startswith(b"PK"):
        return "a damaged archive (truncated?)"
    return "a text file" if start.isascii() and b"\0" not in start else "an unknown format"


def _describe_pickle(stream: IO[bytes]) -> str:
    """Describe a pickle by the name of the first class in it, without unpickling."""
    try:
        names = (arg for opcode, arg, _ in pickletools.genops(stream) if opcode.name == "GLOBAL")
        first = str(next(names, "")).replace(" ", ".")
    except (ValueError, EOFError):
        return "a damaged pickle"
    if not first or first.startswith(("collections.", "torch._utils.", "torch.FloatStorage")):
        return _STATE_DICT
    return f"a pickled '{first}', which is not loaded since unpickling runs code"


def _format_error(path: Path, found: str, kind: IRKind) -> ModelSourceError:
    message = f"'{path}': expected {_KIND_NAMES[kind]}, found {found}"
    weights_hint = f"also pass the model of these weights: file.py:attr --weights {path}"
    return ModelSourceError(message, hint=weights_hint if found == _STATE_DICT else _BUILD_HINT)
