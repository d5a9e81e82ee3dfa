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
    """Load an artifact for inference, without torch.

    Args:
        artifact: The artifact, or the path of its folder.
        device: The device to run on; by default the device that the artifact was built for.
        strict: Raise an error if the engine falls back from the requested device or precision. By
            default, the receipt of the engine lists the fallbacks.
        isolated: Run the engine in a child process. If the engine crashes, a wrapper's call raises
            :class:`~enginebay.errors.ChildCrashedError`, and this process continues. Each call
            copies its inputs and outputs, and tensors on a GPU are copied through the host.

    Returns:
        The wrapper of the engine, ``wrapper({"x": x}) -> {"y": y}``. Close it, or use it in a
        ``with`` block.

    Raises:
        ArtifactError: The artifact is damaged, incomplete, or bound to another engine or device.
            No engine has read the files.
        BackendUnavailableError: The artifact's backend cannot be used on this machine.
        FallbackError: The engine does not run on the requested device, or ``strict`` is set and
            the engine falls back.
    """

    def load_opened(opened: Artifact) -> Wrapper:
        request = load_request(opened, device=device, strict=strict)
        if isolated:
            from enginebay.artifact import IsolatedWrapper

            wrapper: Wrapper = IsolatedWrapper(request)
        else:
            wrapper = request.load()
        # Read at the first use, since the task's plugin may be missing and not be needed.
        wrapper.set_task(cache(lambda: opened.task))
        return wrapper

    # An engine that reads files of two artifacts raises errors that mislead.
    return use_artifact(artifact, load_opened)
