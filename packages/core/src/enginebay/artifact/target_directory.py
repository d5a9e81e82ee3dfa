"""Check that the target directory of a new artifact can be created or replaced."""

from __future__ import annotations

import os
from pathlib import Path

from enginebay.artifact.consistent_reading import read_consistently
from enginebay.artifact.file_checks import walk_files
from enginebay.artifact.manifest import MANIFEST_NAME, MANIFEST_PART, is_manifest, listed_paths
from enginebay.errors import ArtifactError, ArtifactExistsError, check_text

_OTHER_DIR_HINT = "choose another --work-dir"


def check_target(work_dir: str | Path, *, overwrite: bool) -> Path:
    """Check that a new artifact can be written to this path, and return the absolute path.

    The path must be new, or an empty directory. With ``overwrite`` it may also be an artifact,
    unless the directory contains files that are not part of the artifact: they would be deleted.

    Raises:
        ArtifactExistsError: The path exists and cannot be replaced; the message has the reason.
        UsageError: The path cannot be encoded in this locale.
        OSError: The path cannot be inspected.
    """
    target = _resolve_parents(Path(work_dir))
    check_text(str(target))
    # Some users would expect the link to be replaced, and others the directory that it leads to.
    if target.is_symlink():
        raise ArtifactExistsError(
            f'"{target}" is a symbolic link: expected a directory, or a new path',
            hint=f'name the target of the link: --work-dir "{os.path.realpath(target)}"',
        )
    existing = next(path for path in (target, *target.parents) if path.exists())
    if not existing.is_dir():
        raise ArtifactExistsError(
            f'"{existing}" is a file: expected a directory', hint=_OTHER_DIR_HINT
        )
    for folder in target.parents:
        if is_manifest(folder / MANIFEST_NAME):
            raise ArtifactExistsError(
                f'"{target}" is inside the artifact "{folder}", which is replaced as a whole',
                hint=_OTHER_DIR_HINT,
            )
    if existing != target:
        return target
    _check_position(target)
    # Another process may replace the artifact during the check.
    read_consistently(target, lambda: _check_content(target, overwrite=overwrite))
    return target


def _resolve_parents(path: Path) -> Path:
    """Return the absolute path, with symbolic links resolved in all parts except the last."""
    if path.name in {"", ".."}:
        return path.resolve()
    return path.parent.resolve() / path.name


def _check_position(target: Path) -> None:
    # An artifact is replaced by renames, which fail at a mount point. A process in the old
    # directory would stay in it.
    cwd = Path.cwd()
    if target == cwd or target in cwd.parents:
        state = "is the current directory" if target == cwd else "contains the current directory"
    elif target.is_mount():
        state = "is a mount point"
    else:
        return
    raise ArtifactExistsError(
        f'"{target}" {state} and cannot be replaced: expected another directory',
        hint=f'--work-dir "{target / "model"}"',
    )


def _check_content(target: Path, *, overwrite: bool) -> None:
    where = target / MANIFEST_NAME
    if not any(target.iterdir()):
        return
    if not is_manifest(where):
        raise ArtifactExistsError(
            f'"{target}" exists and is not an artifact: expected an empty directory or a new path',
            hint=_OTHER_DIR_HINT,
        )
    if not overwrite:
        raise ArtifactExistsError(
            f'"{target}" exists and contains an artifact', hint=f"--overwrite, or {_OTHER_DIR_HINT}"
        )
    try:
        foreign = set(walk_files(target)) - listed_paths(where) - {MANIFEST_NAME}
    except ArtifactError as error:
        raise ArtifactExistsError(
            f"{error}; this artifact cannot be replaced", hint=_OTHER_DIR_HINT
        ) from error
    # Temporary files of a killed writer are not files of others.
    foreign = {path for path in foreign if not MANIFEST_PART.fullmatch(path)}
    if foreign:
        raise ArtifactExistsError(
            f'"{target}" also contains "{min(foreign)}", which is not part of the artifact',
            hint=f"move this file away, or {_OTHER_DIR_HINT}",
        )
