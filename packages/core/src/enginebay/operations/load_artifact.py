"""An artifact becomes a wrapper, once it has been checked."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from enginebay.artifact import check_pinned, load_parts, open_artifact
from enginebay.backend import get_backend
from enginebay.hooks import WrapperRequest
from enginebay.ir import IR_FOLDER, SUFFIXES

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.artifact import Artifact
    from enginebay.inference import Wrapper


def load(
    artifact: str | Path | Artifact, *, device: str | None = None, strict: bool = False
) -> Wrapper:
    """Make an artifact ready for inference. Needs no torch.

    Args:
        artifact: The folder, or what :func:`enginebay.deploy` answered.
        device: Where to run instead of the device that the artifact was made for.
        strict: Raise where the engine falls back from what was asked for; otherwise its receipt
            lists it.

    Returns:
        ``wrapper({"x": x}) -> {"y": y}``; close it, or use it in a ``with`` block.

    Raises:
        ArtifactError: The artifact is damaged, incomplete, or bound to another engine or device;
            the message names the field that differs. No engine has touched the files.
        BackendUnavailableError: Its backend cannot be used here.
        FallbackError: ``strict``, and the engine fell back.
    """
    opened = open_artifact(artifact)
    backend = get_backend(opened.backend)
    params = backend.Params.from_mapping(opened.manifest.params)
    if device is not None:
        params = params.replace(device=device)
    if opened.manifest.pinned:
        check_pinned(opened.manifest, backend.bound_to(params), hint=_rebuilding(opened))
    request = WrapperRequest(
        directory=opened.path,
        files=opened.files,
        params=params,
        inputs=opened.inputs,
        outputs=opened.outputs,
        strict=strict,
    )
    return load_parts(backend, request, opened.manifest.parts)


def _rebuilding(opened: Artifact) -> str:
    """What to type to make an artifact again here, from the IR that it keeps if it does."""
    manifest = opened.manifest
    command = manifest.command or "deploy the model again here"
    kept = (PurePosixPath(file.path) for file in manifest.files)
    found = [
        file for file in kept if file.parts[0] == IR_FOLDER and file.suffix in SUFFIXES.values()
    ]
    if not found:
        return command
    ir = shlex.quote(str(opened.path / found[0]))
    return f"{command}, or from the IR in it: enginebay convert {manifest.backend} {ir}"
