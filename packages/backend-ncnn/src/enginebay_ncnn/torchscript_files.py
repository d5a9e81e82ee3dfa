"""TorchScript files: loading, saving, and the results of a run."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch


def load_torchscript(path: Path) -> Any:
    """Load a TorchScript file on the CPU."""
    import torch

    load: Any = torch.jit.load
    with silence_warnings():
        return load(str(path), map_location="cpu")


def save_torchscript(module: torch.jit.ScriptModule, target: Path) -> None:
    """Save a TorchScript module to a file."""
    import torch

    # Through a Python file object: on a full disk, torch's own file writer ends the process.
    with silence_warnings(), target.open("wb") as file:
        torch.jit.save(module, file)


def flatten_outputs(outputs: object) -> list[Any]:
    """Return the tensors in a nested result of TorchScript, in order."""
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, list | tuple):
        return [tensor for output in outputs for tensor in flatten_outputs(output)]
    return [outputs]


def summarize_error(err: Exception) -> str:
    """Return an error's type and the first line of its message."""
    lines = str(err).strip().splitlines()
    return f"{type(err).__name__}: {lines[0] if lines else repr(err)}"


@contextmanager
def silence_warnings() -> Iterator[None]:
    """Silence torch's warnings, most of which say that TorchScript is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
