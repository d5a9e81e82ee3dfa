"""``load``: load a checked artifact for inference."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from enginebay.artifact import load_request, use_artifact

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.artifact import Artifact
    from enginebay.inference import Wrapper


def load(
    artifact: str | Path | Artifact,
    *,
    device: str | None = None,
    strict: bool = False,
    isolated: bool = False,
) -> Wrapper:
    """Load an artifact for inference, which needs no torch.

    Args:
        artifact: The folder, or the result of :func:`enginebay.deploy`.
        device: Replaces the device that the artifact was made for.
        strict: Raise if the engine falls back from the requested device or precision; by default
            its receipt lists fallbacks.
        isolated: Run the engine in a child process: if it crashes, the call raises
            :class:`~enginebay.errors.ChildCrashedError` and this process continues. Each call
            copies its inputs and outputs, and tensors on a GPU are copied through the host.

    Returns:
        ``wrapper({"x": x}) -> {"y": y}``; close it, or use it in a ``with`` block.

    Raises:
        ArtifactError: The artifact is damaged, incomplete, or bound to another engine or device.
            No engine has read the files.
        BackendUnavailableError: Its backend cannot be used here.
        FallbackError: The device is not the requested one, or there is a fallback and ``strict``.
    """

    def load_opened(opened: Artifact) -> Wrapper:
        request = load_request(opened, device=device, strict=strict)
        if isolated:
            from enginebay.artifact import IsolatedWrapper

            wrapper: Wrapper = IsolatedWrapper(request)
        else:
            wrapper = request.load()
        # Read on first use: the task's plugin may be missing, and not be needed.
        wrapper.set_task(cache(lambda: opened.task))
        return wrapper

    return use_artifact(artifact, load_opened)
