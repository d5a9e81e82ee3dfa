"""The files that a cell names: found on the client, and again on the machine that runs it."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import read_onnx
from enginebay.commands import human_size
from enginebay.errors import EnginebayError, UsageError, check_text
from enginebay_lab.resources import host_name
from enginebay_lab.sweeps.faults import CellLostError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes that travel with a job, and that come back in a reply, at most. A scheduler holds every job
#: that waits in its memory, and Dask warns of graphs above 10 MB; a file of code or a small model
#: needs no folder that all machines see.
SMALL = 1 << 20


class SentFile(msgspec.Struct, frozen=True):
    """A file that a cell needs.

    Attributes:
        path: Where it is on the client, absolute.
        sha256: Of its content; empty for a folder, of which only the presence is checked.
        size: In bytes.
        content: Its bytes, where they travel with the job; else None.
    """

    path: str
    sha256: str = ""
    size: int = 0
    content: bytes | None = None


class Reference(msgspec.Struct, frozen=True):
    """A text of a cell that names a file: ``net.py:build``, ``x=image.npy``.

    Attributes:
        before: The text before the file's path.
        name: The path as it was written.
        after: The text after it.
        files: The file, and those that belong to it: the external data of an ONNX model.
    """

    before: str
    name: str
    after: str
    files: tuple[SentFile, ...]


def refer(text: str, folder: str = "") -> Reference | None:
    """Find the file that a text names, on the client.

    Args:
        text: A model, a data set, a metric or an input, as on the command line.
        folder: Where relative paths begin; empty for the current folder.

    Returns:
        The file with its digest; None where the text names none that is here: a module, a name of
        a plugin, a shape.

    Raises:
        UsageError: The path is not text in this locale, or the file cannot be read.
    """
    for before, name, after in _readings(text):
        if name and Path(folder, name).exists():
            path = _absolute(str(Path(folder, name)))
            check_text(str(path))
            files = tuple(_described(each) for each in _with_parts(path))
            return Reference(before, name, after, files)
    return None


def _absolute(name: str) -> Path:
    # Not resolve(): a model's weights lie beside the link, as elsewhere.
    return Path(os.path.abspath(name))  # noqa: PTH100


def _readings(text: str) -> Iterator[tuple[str, str, str]]:
    """The ways to read a text: a path, ``path:attribute``, ``input=path``."""
    yield "", text, ""
    file, colon, attribute = text.rpartition(":")
    if file.endswith(".py"):
        yield "", file, f"{colon}{attribute}"
    name, equals, value = text.rpartition("=")
    if value.endswith((".npy", ".npz")):
        yield f"{name}{equals}", value, ""


def _with_parts(path: Path) -> tuple[Path, ...]:
    """The file and, of an ONNX model, the files of its weights."""
    if path.suffix.lower() != ".onnx":
        return (path,)
    with suppress(EnginebayError, OSError):  # whoever runs the cell says what is wrong with it
        return _onnx_files(path, *_signature(path))
    return (path,)


@lru_cache(maxsize=1024)
def _onnx_files(path: Path, *_: int) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((path, *read_onnx(path).files)))


def _described(path: Path) -> SentFile:
    if path.is_dir():
        return SentFile(str(path))
    with _readable(path):
        return SentFile(str(path), digest(path), path.stat().st_size)


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Name a file that cannot be read.

    Raises:
        UsageError: The system refuses it, or it is a pipe or a device.
    """
    try:
        yield
    except OSError as err:
        raise UsageError(f"'{path}' cannot be read: {err.strerror or err}") from err


def with_content(references: dict[str, Reference]) -> dict[str, Reference]:
    """Put the bytes of files into their references, as long as all together are small."""
    left = SMALL
    found = {}
    for text, each in references.items():
        size = sum(file.size for file in each.files)
        if size <= left and all(file.sha256 for file in each.files):
            left -= size
            found[text] = msgspec.structs.replace(each, files=tuple(map(_filled, each.files)))
        else:
            found[text] = each
    return found


def _filled(file: SentFile) -> SentFile:
    with _readable(file.path):
        return msgspec.structs.replace(file, content=Path(file.path).read_bytes())


def locate(reference: Reference, folder: Path) -> tuple[str, str]:
    """Find a file on the machine that runs the cell.

    Args:
        reference: What the client found.
        folder: Where files are written that came with the job.

    Returns:
        The text with the file's path here, and a note where code came without its folder; else
        empty.

    Raises:
        CellLostError: It is not here, or is another file, and did not come with the job.
        OSError: It cannot be written.
    """
    path, note = reference.files[0].path, ""
    if str(_absolute(reference.name)) == path:
        path = reference.name  # as the user wrote it, in messages too
    unseen = next((file for file in reference.files if not _is_seen(file)), None)
    if unseen is not None:
        if any(file.content is None for file in reference.files):
            raise _not_seen(unseen)
        path = str(_written(reference.files, folder))
        if path.endswith(".py"):
            note = (
                f"'{unseen.path}' is not on {host_name()}: it came with the job, and what "
                "else it imports from its folder did not"
            )
    return f"{reference.before}{path}{reference.after}", note


def _is_seen(file: SentFile) -> bool:
    """True if the file at this path has the content that the client found."""
    path = Path(file.path)
    try:
        if not file.sha256:
            return path.is_dir()
        return path.stat().st_size == file.size and digest(path) == file.sha256
    except OSError:
        return False


def _not_seen(file: SentFile) -> CellLostError:
    host = host_name()
    if not file.sha256:
        return CellLostError(
            "not seen",
            f"{host} does not see the folder '{file.path}'",
            hint="put it on a file system that all machines have at the same path",
        )
    state = "has another file" if Path(file.path).exists() else "does not see the file"
    return CellLostError(
        "not seen",
        f"{host} {state} '{file.path}', wanted {human_size(file.size)} with sha256 {file.sha256}",
        hint="put it on a file system that all machines have at the same path; files up to "
        f"{human_size(SMALL)} travel by themselves",
    )


def _written(files: tuple[SentFile, ...], folder: Path) -> Path:
    """Write files as they lay beside each other, and return the first one's path."""
    home = Path(files[0].path).parent
    paths = [folder / Path(file.path).relative_to(home) for file in files]
    for file, path in zip(files, paths, strict=True):
        assert file.content is not None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        if hashlib.sha256(file.content).hexdigest() != file.sha256:
            raise CellLostError(
                "not seen",
                f"'{file.path}' changed while it was read, or on its way to {host_name()}",
                hint="sweep again with --resume",
            )
    return paths[0]


def digest(path: Path) -> str:
    """Return the sha256 of a file; one that is unchanged is read once in a process.

    Raises:
        OSError: It cannot be read.
    """
    return _digest(path, *_signature(path))


def _signature(path: Path) -> tuple[int, int, int]:
    """What differs once a file has changed, without reading it.

    Raises:
        OSError: It cannot be seen, or is a pipe or a device, which would never end.
    """
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise OSError("it is not a regular file")
    return info.st_size, info.st_mtime_ns, info.st_ino


@lru_cache(maxsize=1024)
def _digest(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
