"""What ``verify`` finds on the machines that an engine is built for, written into the manifest.

The engine's files stay as they are, and so does the folder: an artifact may be a mount point, or
the folder that its user is in. The manifest is replaced whole, one writer after the other.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact import manifest as manifests
from enginebay.artifact.manifest import MANIFEST_NAME, MANIFEST_PART, Manifest, RunRecord
from enginebay.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.artifact.opening import Artifact
    from enginebay.backend import Backend
    from enginebay.inference import Receipt
    from enginebay.verdict import Verification

#: From the best to the worst.
_VERDICTS = ("verified", "unverified", "mismatched", "crashed")


def run_record(backend: Backend, verification: Verification, receipt: Receipt | None) -> RunRecord:
    """Describe a run of an engine that has just ended on this machine.

    Args:
        backend: The engine's.
        verification: The verdict.
        receipt: What the engine says that it ran; None where it crashed.
    """
    return RunRecord(
        host=os.uname().nodename,
        device=(receipt.device_name or receipt.device) if receipt else "",
        engine_version=backend.get_version(),
        time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        verification=verification,
        receipt=receipt,
    )


def record_run(artifact: Artifact, run: RunRecord) -> None:
    """Write a run into the manifest of an artifact, whole or not at all.

    Runs that others have recorded since it was opened are kept.

    Raises:
        ArtifactError: Another artifact has taken its place.
        OSError: The manifest cannot be written; it is as it was.
    """
    where = artifact.path / MANIFEST_NAME
    with _locked(artifact) as folder:
        # By the folder's descriptor: whatever replaces the artifact now gets no line of this.
        current = manifests.decode(_read(folder), where)
        if current.as_made != artifact.manifest.as_made:
            raise ArtifactError(
                f'"{artifact.path}" was replaced by another artifact after it was opened',
                hint="verify it again",
            )
        _replace(folder, manifests.encode(with_run(current, run)))


def with_run(manifest: Manifest, run: RunRecord) -> Manifest:
    """The manifest with one more run, in place of an earlier one on the same device.

    The verdict is that of the worst run. What the samples are stays as it was, and so do the
    figures of the simulation: where the graph is right and an engine wrong, they say so.
    """
    runs = (*(old for old in manifest.runs if not _same_device(old, run)), run)
    worst = max(reversed(runs), key=lambda one: _VERDICTS.index(one.verdict))
    found, before = worst.verification, manifest.verification or worst.verification
    return msgspec.structs.replace(
        manifest,
        runs=runs,
        verification=msgspec.structs.replace(
            found,
            reference=before.reference or found.reference,
            basis=found.basis or before.basis,
            simulation=before.simulation,
        ),
        receipt=worst.receipt,
    )


def _same_device(old: RunRecord, new: RunRecord) -> bool:
    """True for one device; an engine that crashed names none, and then it is one of its machine."""
    if old.device and new.device:
        return old.device == new.device
    return old.host == new.host


@contextmanager
def _locked(artifact: Artifact) -> Iterator[int]:
    """Yield a descriptor of the artifact's folder, which no other writer has meanwhile."""
    import fcntl

    descriptor = os.open(artifact.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # a file system without locks: the last writer wins
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _read(folder: int) -> bytes:
    with os.fdopen(os.open(MANIFEST_NAME, os.O_RDONLY, dir_fd=folder), "rb") as file:
        return file.read()


def _replace(folder: int, data: bytes) -> None:
    """Replace the manifest in a folder; what writers that were killed have left goes first."""
    for name in os.listdir(folder):
        if MANIFEST_PART.fullmatch(name):
            os.unlink(name, dir_fd=folder)
    part = f".{MANIFEST_NAME}.{secrets.token_hex(8)}.part"
    mode = os.stat(MANIFEST_NAME, dir_fd=folder).st_mode & 0o777
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(part, flags, mode, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, MANIFEST_NAME, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise
    with suppress(OSError):  # a file system that syncs no folders
        os.fsync(folder)
