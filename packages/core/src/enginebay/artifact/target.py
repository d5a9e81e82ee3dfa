"""The directory that an artifact is to become: may it be made, may it be replaced?"""

from __future__ import annotations

import os
from pathlib import Path

from enginebay.artifact.file_checks import walk
from enginebay.artifact.manifest import MANIFEST_NAME, MANIFEST_PART, is_manifest, listed_paths
from enginebay.artifact.replacement import read_whole
from enginebay.errors import ArtifactError, ArtifactExistsError, check_text

_ELSEWHERE = "choose another --work-dir"


def check_target(work_dir: str | Path, *, overwrite: bool) -> Path:
    """The absolute path of a work directory that may become an artifact; touches nothing.

    It may if there is nothing at its name, or an empty directory. With ``overwrite`` it may also
    be an artifact, and then must hold nothing besides: what somebody put there is not ours to
    delete. A symbolic link is refused, since to replace the link or what it leads to are both
    likely to surprise.

    Raises:
        ArtifactExistsError: Says what is there.
        UsageError: Its name is not text in this locale.
        OSError: It cannot be looked at.
    """
    target = _absolute(Path(work_dir))
    check_text(str(target))
    if target.is_symlink():
        raise ArtifactExistsError(
            f'"{target}" is a symbolic link; wanted a directory, or nothing yet',
            hint=f'name what it leads to: --work-dir "{os.path.realpath(target)}"',
        )
    there = next(path for path in (target, *target.parents) if path.exists())
    if not there.is_dir():
        raise ArtifactExistsError(f'"{there}" is a file; wanted a directory', hint=_ELSEWHERE)
    if there != target:
        return target
    _check_position(target)
    read_whole(target, lambda: _check_content(target, overwrite=overwrite))
    return target


def _absolute(path: Path) -> Path:
    """The path with its parents resolved; the last part may be a link and stays as it is."""
    if path.name in {"", ".."}:
        return path.resolve()
    return path.parent.resolve() / path.name


def _check_position(target: Path) -> None:
    """Refuse a directory that cannot be replaced as a whole."""
    cwd = Path.cwd()
    if target == cwd or target in cwd.parents:
        state = "is the current directory" if target == cwd else "holds the current directory"
    elif target.is_mount():
        state = "is a mount point"
    else:
        return
    raise ArtifactExistsError(
        f'"{target}" {state} and cannot be replaced; wanted a directory of its own',
        hint=f'--work-dir "{target / "model"}"',
    )


def _check_content(target: Path, *, overwrite: bool) -> None:
    """Refuse a directory that is not empty, unless it may be overwritten and is an artifact."""
    where = target / MANIFEST_NAME
    if not any(target.iterdir()):
        return
    if not is_manifest(where):
        raise ArtifactExistsError(
            f'"{target}" exists and is not an artifact; wanted an empty directory or none',
            hint=_ELSEWHERE,
        )
    if not overwrite:
        raise ArtifactExistsError(
            f'"{target}" exists and holds an artifact', hint=f"--overwrite, or {_ELSEWHERE}"
        )
    try:
        foreign = set(walk(target)) - listed_paths(where) - {MANIFEST_NAME}
    except ArtifactError as error:
        raise ArtifactExistsError(f"{error}; it is not overwritten", hint=_ELSEWHERE) from error
    foreign = {path for path in foreign if not MANIFEST_PART.fullmatch(path)}
    if foreign:
        raise ArtifactExistsError(
            f'"{target}" also holds "{min(foreign)}", which is not part of the artifact',
            hint=f"move it away, or {_ELSEWHERE}",
        )
