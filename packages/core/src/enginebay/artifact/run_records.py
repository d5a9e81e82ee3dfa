"""Records of ``verify`` runs in the manifest of an artifact that is built for other machines.

To add a record, one writer at a time replaces the manifest file atomically. The artifact's folder
is not replaced, since it may be a mount point or the current directory of a process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact import manifest as manifests
from enginebay.artifact.manifest import MANIFEST_NAME, MANIFEST_PART, Manifest, RunRecord
from enginebay.errors import ArtifactError
from enginebay.files import lock_folder, replacement

if TYPE_CHECKING:
    from enginebay.artifact.opening import Artifact
    from enginebay.backend import BackendHooks
    from enginebay.inference import Receipt
    from enginebay.verdict import Verification

#: The verdicts from the best to the worst.
_VERDICTS = ("verified", "unverified", "mismatched", "crashed")


def run_record(
    backend: BackendHooks, verification: Verification, receipt: Receipt | None
) -> RunRecord:
    """Return the :class:`RunRecord` of a verification that has just ended on this machine.

    Args:
        backend: The engine's backend.
        verification: The verdict with the error metrics of the outputs.
        receipt: The engine's receipt; None if the engine crashed.
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
    """Add a verify run to the manifest file of an artifact, atomically.

    Runs that other processes have recorded since the artifact was opened stay in the manifest.

    Raises:
        ArtifactError: Another artifact has replaced this one.
        OSError: The manifest file cannot be written; it is unchanged.
    """
    where = artifact.path / MANIFEST_NAME
    with lock_folder(artifact.path) as lock:
        # By the folder's descriptor: an artifact that replaces this one now stays untouched.
        current = manifests.decode_manifest(_read_manifest(lock.descriptor), where)
        if current.as_made != artifact.manifest.as_made:
            raise ArtifactError(
                f'"{artifact.path}" was replaced by another artifact after it was opened',
                hint="verify the artifact again",
            )
        _replace_manifest(lock.descriptor, manifests.encode_manifest(add_run(current, run)))


def add_run(manifest: Manifest, run: RunRecord) -> Manifest:
    """Return the manifest with a new run, which replaces an earlier run on the same device.

    The verdict of the returned manifest is the worst verdict of all its runs.
    """
    runs = (*(old for old in manifest.runs if not _is_same_device(old, run)), run)
    # The latest of the worst runs.
    worst = max(reversed(runs), key=lambda record: _VERDICTS.index(record.verdict))
    verification, before = worst.verification, manifest.verification or worst.verification
    return msgspec.structs.replace(
        manifest,
        runs=runs,
        verification=msgspec.structs.replace(
            verification,
            reference=before.reference or verification.reference,
            basis=verification.basis or before.basis,
            # A mismatch is in the engine, and not in its graph, if the simulation was right.
            simulation=before.simulation,
        ),
        receipt=worst.receipt,
    )


def _is_same_device(old: RunRecord, new: RunRecord) -> bool:
    if old.device and new.device:
        return old.device == new.device
    # An engine that crashed names no device: it counts for any device of its machine.
    return old.host == new.host


def _read_manifest(folder: int) -> bytes:
    with os.fdopen(os.open(MANIFEST_NAME, os.O_RDONLY, dir_fd=folder), "rb") as file:
        return file.read()


def _replace_manifest(folder: int, data: bytes) -> None:
    # Remove the temporary files of writers that were killed.
    for name in os.listdir(folder):
        if MANIFEST_PART.fullmatch(name):
            os.unlink(name, dir_fd=folder)
    with replacement(Path(MANIFEST_NAME), folder=folder) as file:
        file.write(data)
    with suppress(OSError):  # a file system that cannot sync folders
        os.fsync(folder)
