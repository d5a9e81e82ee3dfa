"""``load``: load a checked artifact for inference."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Literal

from enginebay.artifact import load_request, use_artifact
from enginebay.errors import InputError, UsageError
from enginebay.verdict import VerdictWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from enginebay.artifact import Artifact
    from enginebay.inference import Wrapper
    from enginebay.tensors import Array


def load(
    artifact: str | Path | Artifact,
    *,
    device: str | None = None,
    params: Mapping[str, object] | None = None,
    strict: bool = False,
    isolated: bool = False,
    within: Literal["warn", "raise"] | None = None,
) -> Wrapper:
    """Load an artifact for inference, without torch.

    Args:
        artifact: The artifact, or the path of its folder.
        device: The device to run on; by default the device that the artifact was built for.
        params: Other values of the backend's run-time parameters, such as its threads.
        strict: Raise an error if the engine falls back from the requested device or precision. By
            default, the receipt of the engine lists the fallbacks.
        isolated: Run the engine in a child process. If the engine crashes, a wrapper's call raises
            :class:`~enginebay.errors.ChildCrashedError`, and this process continues. Each call
            copies its inputs and outputs, and tensors on a GPU are copied through the host.
        within: Compare the inputs of each call with the range of values and sizes that the artifact
            was verified with: ``"warn"`` emits a :class:`~enginebay.VerdictWarning` that names what
            lies beyond it, ``"raise"`` an :class:`~enginebay.errors.InputError`. By default nothing
            is compared.

    Returns:
        The wrapper of the engine, ``wrapper({"x": x}) -> {"y": y}``. Close it, or use it in a
        ``with`` block.

    Raises:
        ArtifactError: The artifact is damaged, incomplete, or bound to another engine or device.
            No engine has read the files.
        BackendUnavailableError: The artifact's backend cannot be used on this machine.
        FallbackError: The engine does not run on the requested device, or ``strict`` is set and
            the engine falls back.
        ParamsError: A parameter is unknown, has an invalid value, or is built into the artifact.
        UsageError: ``within`` is set, and the artifact records no range.
    """

    def load_opened(opened: Artifact) -> tuple[Artifact, Wrapper]:
        watch = None if within is None else _watch_range(opened, within)
        request = load_request(opened, device=device, params=params, strict=strict)
        if isolated:
            from enginebay.artifact import IsolatedWrapper

            wrapper: Wrapper = IsolatedWrapper(request)
        else:
            wrapper = request.load()
        # Read at the first use, since the task's plugin may be missing and not be needed.
        wrapper.set_task(cache(lambda: opened.task))
        if known := opened.verified_range:
            wrapper.find_beyond = known.find_beyond
        if watch is not None:
            wrapper.watch_inputs(watch)
        return opened, wrapper

    # An engine that reads files of two artifacts raises errors that mislead.
    opened, wrapper = use_artifact(artifact, load_opened)
    try:
        opened.warn()
    except Warning:  # a filter made it an error: nobody could close the wrapper
        wrapper.close()
        raise
    return wrapper


def _watch_range(opened: Artifact, within: str) -> Callable[[Mapping[str, Array]], None]:
    """Return a function that warns or raises if inputs lie beyond what was verified."""
    if within not in ("warn", "raise"):
        raise UsageError(f"invalid argument within={within!r}: expected 'warn' or 'raise'")
    known = opened.verified_range
    if known is None:
        raise UsageError(
            f"'{opened.path}' records no range of inputs to compare a call with",
            hint="deploy the model again, or load the artifact without 'within'",
        )

    def watch(inputs: Mapping[str, Array]) -> None:
        if not (beyond := known.find_beyond(inputs)):
            return
        text = f"the inputs lie beyond what was verified: {'; '.join(beyond)}"
        if within == "raise":
            raise InputError(text, hint="deploy again with --data or an example of this range")
        warnings.warn(text, VerdictWarning, stacklevel=4)  # the line of the call

    return watch
