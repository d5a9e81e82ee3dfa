"""From a worker's reply to the row of a sweep, with its artifact under its own name."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from enginebay.artifact import move_artifact
from enginebay.errors import ArtifactError, ArtifactExistsError, EnginebayError
from enginebay_lab.resources import host_name
from enginebay_lab.sweeps.faults import lost, lost_to_disk, named
from enginebay_lab.sweeps.job import decode_reply
from enginebay_lab.sweeps.sending import ARTIFACTS, ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay_lab.sweeps.rows import SweepRow


def arrived(reply: bytes, output: Path | None) -> SweepRow:
    """Return the row of a cell, after its artifact was checked and has come to its place.

    The artifact is at ``OUTPUT/artifacts/MODEL-on-BACKEND-PRECISION-KEY``: whole, or not at all.
    One that an earlier run of the cell left there is replaced.

    Args:
        reply: What :func:`~enginebay_lab.sweeps.cell_task.run_cell` returned.
        output: The sweep's folder; None where artifacts are not kept.

    Returns:
        The row. The fault is ``damaged`` where the artifact is not the one that was made, and
        ``disk`` where it cannot be written here.
    """
    found = decode_reply(reply)
    row = found.row
    if output is None or not (found.files or row.artifact):
        return row
    built = (output / ARTIFACTS / ATTEMPTS).resolve()
    try:
        attempt = _written(found.files, built, row.key) if found.files else Path(row.artifact or "")
        if not attempt.is_relative_to(built):
            raise ArtifactError(f"'{attempt}' is not below '{built}', where artifacts are built")
        artifact = move_artifact(attempt, output / ARTIFACTS / folder_name(row), row.digest)
        shutil.rmtree(attempt.parent, ignore_errors=True)
    except (EnginebayError, OSError) as err:
        return _unplaced(row, err)
    return named(row, str(artifact.path))


def folder_name(row: SweepRow) -> str:
    """Return the name of a cell's artifact: readable, and no other cell's.

    Example:
        >>> from enginebay_lab import SweepRow
        >>> row = SweepRow(key="5eed", model="nets/a.py:build", backend="ncnn", precision="fp16",
        ...                verdict="verified")
        >>> folder_name(row)
        'a.py-build-on-ncnn-fp16-5eed'
    """
    model = row.model.rsplit("/", 1)[-1]
    plain = re.sub(r"[^\w.]+", "-", f"{model} on {row.backend} {row.precision}").strip("-.")
    return f"{plain[:50]}-{row.key}"  # a name has at most 255 bytes, and a letter up to four


def _written(files: Mapping[str, bytes], built: Path, key: str) -> Path:
    """Write an artifact that travelled, beside those that are built on a shared file system."""
    folder = built / f"{key}-{secrets.token_hex(4)}" / "artifact"
    for name, content in files.items():
        if ".." in PurePosixPath(name).parts or name.startswith("/"):
            raise ArtifactError(f"a worker sent the file {name!r}; wanted a path in the artifact")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    return folder


def _unplaced(row: SweepRow, err: EnginebayError | OSError) -> SweepRow:
    """The row of an artifact that did not come to its place."""
    if isinstance(err, ArtifactError) and not isinstance(err.__cause__, OSError):
        return lost(row, "damaged", str(err), "sweep again with --resume")
    if isinstance(err, ArtifactExistsError):
        hint = "move it away, then sweep again with --resume"
        return lost(row, "disk", f"on {host_name()}: {err}", hint)
    return lost_to_disk(row, host_name(), err)
