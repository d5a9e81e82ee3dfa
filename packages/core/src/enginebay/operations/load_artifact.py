"""``load``: an artifact becomes a wrapper, once it has been checked."""

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
    """Make an artifact ready for inference. Needs no torch.

    Args:
        artifact: The folder, or what :func:`enginebay.deploy` returned.
        device: Where to run instead of the device that the artifact was made for.
        strict: Raise where the engine falls back from what was requested; otherwise its receipt
            lists it.
        isolated: Run the engine in a child process: where it crashes, a call raises
            :class:`~enginebay.errors.ChildCrashedError` and this process goes on. Each call costs
            a copy of its inputs and outputs, and tensors on a GPU go through the host.

    Returns:
        ``wrapper({"x": x}) -> {"y": y}``; close it, or use it in a ``with`` block.

    Raises:
        ArtifactError: The artifact is damaged, incomplete, or bound to another engine or device;
            the message names the field that differs. No engine has touched the files.
        BackendUnavailableError: Its backend cannot be used here.
        FallbackError: Another device than the requested one, or ``strict`` and a fallback.
    """

    def load_opened(opened: Artifact) -> Wrapper:
        request = load_request(opened, device=device, strict=strict)
        if isolated:
            from enginebay.artifact import IsolatedWrapper

            wrapper: Wrapper = IsolatedWrapper(request)
        else:
            wrapper = request.load()
        wrapper.set_task(cache(lambda: opened.task))  # its plugin may be absent, and not be needed
        return wrapper

    return use_artifact(artifact, load_opened)
