"""Staging directories: an artifact is built next to its final path, and moved there atomically.

::

    work/                      the parent of the work directory
    ├── .model.staging-4f…/    the staging directory, locked by the process that writes it
    └── model/                 the artifact, after one rename

A killed process leaves its staging directory behind without the lock. The next process with the
same work directory removes it.
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
from enginebay.artifact.directory_exchange import exchange_directories
from enginebay.artifact.file_checks import list_files
from enginebay.artifact.manifest import MANIFEST_NAME, Manifest
from enginebay.artifact.opening import Artifact, open_artifact
from enginebay.artifact.target_directory import check_target
from enginebay.errors import (
    ArtifactError,
    ArtifactExistsError,
    EnginebayError,
    disk_error,
    raise_if_interrupted,
)
from enginebay.files import lock_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Attempts to remove a staging directory that another thread still writes to.
_REMOVE_ATTEMPTS = 10
_REMOVE_PAUSE_SECONDS = 0.02


class StagingDirectory:
    """A temporary directory, in which an artifact is built before it is published.

    Attributes:
        dir: The directory for the artifact's files; empty at first.
        target: The artifact's final path.
    """

    def __init__(self, directory: Path, target: Path, *, overwrite: bool) -> None:
        self.dir = directory
        self.target = target
        self._overwrite = overwrite

    @contextmanager
    def move_away(self) -> Iterator[Path]:
        """Rename the directory during the ``with`` block, and yield the temporary path."""
        # An engine whose files contain absolute paths then fails before it is published.
        moved = self.dir.rename(self.dir.with_name(_new_name(self.target)))
        try:
            yield moved
        except EnginebayError as err:
            # The engine has looked for a file at the directory's former path.
            if self.dir.name in str(err):
                err.hint = (
                    "write paths that are relative: the files are moved once they are verified"
                )
            raise
        finally:
            moved.rename(self.dir)

    def publish(self, manifest: Manifest) -> Artifact:
        """Flush the artifact's files to disk, and rename the directory to the final path.

        Args:
            manifest: The manifest without ``files``, which this method adds.

        Returns:
            The opened artifact.

        Raises:
            ArtifactError: A file is missing or cannot be part of an artifact, or the disk fails.
            ArtifactExistsError: Another process has created the final path in the meantime.
        """
        with _explain_disk_errors(self.target):
            data = self._encode_complete(manifest)
            _write_synced(self.dir / MANIFEST_NAME, data)
            for folder, _, _ in os.walk(self.dir):
                _sync_folder(Path(folder))
            # Other code may have caught the exception of Ctrl-C: do not publish after it.
            raise_if_interrupted()
            _rename_into_place(self.dir, self.target, overwrite=self._overwrite)
            _sync_folder(self.target.parent)
        # Not by open_artifact(), which would read all files again.
        return Artifact(self.target, manifests.decode_manifest(data, self.target / MANIFEST_NAME))

    def _encode_complete(self, manifest: Manifest) -> bytes:
        if (self.dir / MANIFEST_NAME).exists():
            raise ArtifactError(f'the backend wrote "{MANIFEST_NAME}", which is a reserved name')
        files = list_files(self.dir)
        missing = set(manifest.model_files) - {entry.path for entry in files}
        if missing:
            raise ArtifactError(
                f'the backend listed the file "{min(missing)}", but did not write this file'
            )
        return manifests.encode_manifest(msgspec.structs.replace(manifest, files=files))


def move_artifact(source: str | Path, target: str | Path, digest: str) -> Artifact:
    """Move an artifact to another path on the same file system, and return the moved artifact.

    Args:
        source: The artifact's folder.
        target: The new path. An existing artifact at this path is moved to ``source``.
        digest: The expected :attr:`Artifact.digest`.

    Raises:
        ArtifactError: The artifact is damaged or has another digest, or the disk fails.
        ArtifactExistsError: The new path exists and is not an artifact.
    """
    artifact = open_artifact(source)
    # Only the intended artifact may replace an existing one.
    if artifact.digest != digest:
        raise ArtifactError(
            f'"{source}" is a different artifact: expected a manifest of sha256 {digest}, found '
            f"{artifact.digest}"
        )
    target = Path(target)
    with _explain_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target = check_target(target, overwrite=True)
        _rename_into_place(artifact.path, target, overwrite=True)
        _sync_folder(target.parent)
    return Artifact(target, artifact.manifest)


def _rename_into_place(directory: Path, target: Path, *, overwrite: bool) -> None:
    """Rename a directory to ``target``, or exchange the directory and an existing artifact."""
    # Again, since another process may have changed the target during the build.
    check_target(target, overwrite=overwrite)
    if overwrite and target.exists():
        exchange_directories(directory, target)
        return
    try:
        directory.rename(target)  # can replace only an empty directory
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
            raise
        message = f'"{target}" was created by another process in the meantime'
        raise ArtifactExistsError(message, hint="choose another --work-dir") from error


@contextmanager
def staging(work_dir: str | Path, *, overwrite: bool = False) -> Iterator[StagingDirectory]:
    """Provide a directory to build an artifact in; remove the directory unless it is published.

    Args:
        work_dir: The artifact's final path. Missing parent folders are created, and removed again
            if nothing is published.
        overwrite: True to replace an existing artifact when the new one is published.

    Yields:
        The staging directory, on the file system of the final path.

    Raises:
        ArtifactExistsError: The final path cannot be used; raised before any work is done.
        ArtifactError: The folder cannot be written, or the disk is full or read-only.
    """
    target = Path(work_dir)
    with ExitStack() as cleanup:
        with _explain_disk_errors(target):
            target = check_target(work_dir, overwrite=overwrite)
            _make_parents(target, cleanup)
            _remove_abandoned_siblings(target)
            directory = _create_staging(target, cleanup)
        # An error of the block may be about a file elsewhere.
        with _explain_disk_errors(target, disk_only=True):
            yield StagingDirectory(directory, target, overwrite=overwrite)


@contextmanager
def _explain_disk_errors(target: Path, *, disk_only: bool = False) -> Iterator[None]:
    """If the ``with`` block raises an OSError, raise an ArtifactError instead.

    With ``disk_only``, replace only the errors of a full or read-only disk.
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
    """Create the target's parent folders; ``cleanup`` removes them again if they are empty."""
    missing = [folder for folder in target.parents if not folder.exists()]
    cleanup.callback(_remove_empty, missing)
    target.parent.mkdir(parents=True, exist_ok=True)


def _remove_empty(folders: list[Path]) -> None:
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _remove_staging(directory: Path) -> None:
    """Remove a staging directory, even after Ctrl-C or while a thread still writes into it."""
    interrupted: KeyboardInterrupt | None = None
    # A second Ctrl-C, or a file that a thread has just written, must not leave the directory
    # behind.
    for _ in range(_REMOVE_ATTEMPTS):
        try:
            shutil.rmtree(directory, ignore_errors=True)
        except KeyboardInterrupt as error:
            interrupted = error
        if not directory.exists():
            break
        time.sleep(_REMOVE_PAUSE_SECONDS)
    if interrupted is not None:
        raise interrupted


def _staging_prefix(target: Path) -> str:
    # Cut, since most file systems limit a name to 255 bytes.
    return f".{target.name[:50]}.staging-"


def _new_name(target: Path) -> str:
    return f"{_staging_prefix(target)}{secrets.token_hex(8)}"


def _create_staging(target: Path, cleanup: ExitStack) -> Path:
    while True:
        directory = target.parent / _new_name(target)
        cleanup.callback(_remove_staging, directory)
        directory.mkdir()  # not mkdtemp: the artifact keeps the mode, which the umask decides
        if _lock_staging(directory, cleanup):
            return directory


def _lock_staging(directory: Path, cleanup: ExitStack) -> bool:
    """Lock a new staging directory; return False if another process removed the directory."""
    with suppress(FileNotFoundError):
        lock = cleanup.enter_context(lock_folder(directory))
        # Without locks, no process removes directories.
        return not lock.is_held or os.path.samestat(os.fstat(lock.descriptor), directory.stat())
    return False


def _remove_abandoned_siblings(target: Path) -> None:
    pattern = re.compile(re.escape(_staging_prefix(target)) + "[0-9a-f]{16}")
    with suppress(OSError):  # a folder that can be written but not listed
        for entry in target.parent.iterdir():
            if pattern.fullmatch(entry.name):
                _remove_abandoned(entry)


def _remove_abandoned(directory: Path) -> None:
    """Remove a staging directory unless a process has locked it."""
    with suppress(OSError), lock_folder(directory, wait=False) as lock:
        if lock.is_held:
            shutil.rmtree(directory, ignore_errors=True)


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    # Not every file system can sync a folder.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
