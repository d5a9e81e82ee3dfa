"""Build an artifact beside its final name, under which it appears complete or not at all.

::

    work/                      the parent of the work directory
    ├── .model.staging-4f…/    written for as long as it takes, locked by the process that writes
    └── model/                 one rename later

A process that is killed leaves its staging directory behind without the lock; the next one that
stages the same work directory removes it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact import manifest as manifests
from enginebay.artifact.exchange import exchange
from enginebay.artifact.file_checks import list_files
from enginebay.artifact.manifest import MANIFEST_NAME, Manifest
from enginebay.artifact.opening import Artifact, open_artifact
from enginebay.artifact.target import check_target
from enginebay.errors import (
    ArtifactError,
    ArtifactExistsError,
    EnginebayError,
    disk_error,
    raise_if_interrupted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Times that a staging directory is removed, 20 ms apart, where something comes between.
_ATTEMPTS = 10


class Staging:
    """A directory that is about to become an artifact.

    Attributes:
        dir: Where to write the artifact's files; empty at first.
        target: The artifact's final name.
    """

    def __init__(self, directory: Path, target: Path, *, overwrite: bool) -> None:
        self.dir = directory
        self.target = target
        self._overwrite = overwrite

    @contextmanager
    def moved(self) -> Iterator[Path]:
        """Rename the directory for a while: an engine whose files hold its path fails there."""
        moved = self.dir.rename(self.dir.with_name(_new_name(self.target)))
        try:
            yield moved
        except EnginebayError as err:
            if self.dir.name in str(err):
                err.hint = (
                    "write paths that are relative: the files are moved once they are verified"
                )
            raise
        finally:
            moved.rename(self.dir)

    def publish(self, manifest: Manifest) -> Artifact:
        """Make the artifact appear under its final name, whole and on disk.

        Args:
            manifest: Its ``files`` are filled in here.

        Returns:
            The artifact as :func:`~enginebay.artifact.open_artifact` would read it.

        Raises:
            ArtifactError: A file is missing or cannot be part of an artifact, or the disk refuses.
            ArtifactExistsError: Something has come to the final name in the meantime.
        """
        with _explained(self.target):
            data = self._complete(manifest)
            _write(self.dir / MANIFEST_NAME, data)
            for folder, _, _ in os.walk(self.dir):
                _sync(Path(folder))
            raise_if_interrupted()
            _appear(self.dir, self.target, overwrite=self._overwrite)
            _sync(self.target.parent)
        return Artifact(self.target, manifests.decode(data, self.target / MANIFEST_NAME))

    def _complete(self, manifest: Manifest) -> bytes:
        """The manifest with the digests of all files."""
        if (self.dir / MANIFEST_NAME).exists():
            raise ArtifactError(f'the backend wrote "{MANIFEST_NAME}"; that name is taken')
        files = list_files(self.dir)
        missing = set(manifest.model_files) - {entry.path for entry in files}
        if missing:
            raise ArtifactError(f'the backend did not write "{min(missing)}", which it announced')
        return manifests.encode(msgspec.structs.replace(manifest, files=files))


def move_artifact(source: str | Path, target: str | Path, digest: str) -> Artifact:
    """Give an artifact that is complete its final name, on the same file system.

    Args:
        source: The artifact's folder.
        target: Its final name; an artifact that is there is replaced, and moved to ``source``.
        digest: The artifact's, as whoever made it says.

    Raises:
        ArtifactError: It is damaged or another one, or the disk refuses.
        ArtifactExistsError: Something else has the final name.
    """
    artifact = open_artifact(source)
    if artifact.digest != digest:
        raise ArtifactError(
            f'"{source}" is another artifact: wanted a manifest of sha256 {digest}, found '
            f"{artifact.digest}"
        )
    target = Path(target)
    with _explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target = check_target(target, overwrite=True)
        _appear(artifact.path, target, overwrite=True)
        _sync(target.parent)
    return Artifact(target, artifact.manifest)


def _appear(directory: Path, target: Path, *, overwrite: bool) -> None:
    """Give a directory its final name. What had it is then at ``directory``."""
    check_target(target, overwrite=overwrite)
    if overwrite and target.exists():
        exchange(directory, target)
        return
    try:
        directory.rename(target)  # replaces an empty directory, and nothing else
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
            raise
        message = f'"{target}" was made by somebody else in the meantime'
        raise ArtifactExistsError(message, hint="choose another --work-dir") from error


@contextmanager
def staging(work_dir: str | Path, *, overwrite: bool = False) -> Iterator[Staging]:
    """A place to build an artifact in; nothing of it stays unless it is published.

    Args:
        work_dir: The artifact's final name. Missing parents are made, and removed again if
            nothing is published.
        overwrite: Whether an artifact that is there may be replaced. It stays exactly as it is
            until the new one takes its name.

    Yields:
        The staging directory, on the same file system.

    Raises:
        ArtifactExistsError: The work directory is taken; raised before any work is done.
        ArtifactError: It cannot be written: permissions, a full or read-only disk.
    """
    target = Path(work_dir)
    with ExitStack() as cleanup:
        with _explained(target):
            target = check_target(work_dir, overwrite=overwrite)
            _make_parents(target, cleanup)
            _sweep(target)
            directory = _claim(target, cleanup)
        with _explained(target, disk_only=True):
            yield Staging(directory, target, overwrite=overwrite)


@contextmanager
def _explained(target: Path, *, disk_only: bool = False) -> Iterator[None]:
    """Turns the system's errors into one line about the artifact.

    In the body only the disk's state is ours to tell, whoever met it; other errors are its own.
    """
    try:
        yield
    except OSError as error:
        if disk_only and not disk_error(error):
            raise
        raise ArtifactError(
            f'the artifact "{target}" cannot be written: {error.strerror or error}',
            hint="free some space, or choose another --work-dir"
            if error.errno in {errno.ENOSPC, errno.EDQUOT}
            else "choose another --work-dir",
        ) from error


def _make_parents(target: Path, cleanup: ExitStack) -> None:
    """Make the folders above the target; those that are still empty at the end go again."""
    missing = [folder for folder in target.parents if not folder.exists()]
    cleanup.callback(_remove_empty, missing)
    target.parent.mkdir(parents=True, exist_ok=True)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, the deepest first, as long as they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _remove(directory: Path) -> None:
    """Remove a staging directory, though a signal comes between, or a thread still writes there."""
    interrupted: KeyboardInterrupt | None = None
    for _ in range(_ATTEMPTS):
        try:
            shutil.rmtree(directory, ignore_errors=True)
        except KeyboardInterrupt as error:
            interrupted = error
        if not directory.exists():
            break
        time.sleep(0.02)
    if interrupted is not None:
        raise interrupted


def _prefix(target: Path) -> str:
    """The prefix of a target's staging directories; cut, since a name has at most 255 bytes."""
    return f".{target.name[:50]}.staging-"


def _new_name(target: Path) -> str:
    return f"{_prefix(target)}{secrets.token_hex(8)}"


def _claim(target: Path, cleanup: ExitStack) -> Path:
    """Make a staging directory, locked for as long as this process lives."""
    while True:
        directory = target.parent / _new_name(target)
        cleanup.callback(_remove, directory)
        directory.mkdir()  # not mkdtemp: the artifact keeps the mode, and the umask decides on it
        if _hold(directory, cleanup):
            return directory


def _hold(directory: Path, cleanup: ExitStack) -> bool:
    """Lock a new staging directory; False where another process has just swept it away."""
    import fcntl

    with suppress(FileNotFoundError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        cleanup.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            return True  # this file system has no locks, so nobody sweeps on it either
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    return False


def _sweep(target: Path) -> None:
    """Remove the staging directories of this target whose process lives no more."""
    pattern = re.compile(re.escape(_prefix(target)) + "[0-9a-f]{16}")
    with suppress(OSError):  # a folder that can be written but not listed
        for entry in target.parent.iterdir():
            if pattern.fullmatch(entry.name):
                _remove_abandoned(entry)


def _remove_abandoned(directory: Path) -> None:
    """Remove a staging directory unless some process holds it."""
    import fcntl

    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    """Write a file and see it to the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """See a folder's entries to the disk, where the file system and the rights allow it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
