"""Weights: random ones that are the same each time, or those of a local file."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn

#: Where training frameworks keep the ``state_dict`` inside of a checkpoint.
_WRAPPERS = ("state_dict", "model")


@contextmanager
def same_each_time() -> Iterator[None]:
    """Random numbers from one seed inside, and the caller's own untouched."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def load_weights(model: nn.Module, path: str) -> None:
    """Load a local file into the model; nothing in it is executed.

    Raises:
        ModelSourceError: The file is missing, unreadable, or of another model.
    """
    file = Path(path)
    if not file.is_file():
        raise ModelSourceError(f"codebase_config.checkpoint: no file '{path}'")
    state = _read(file)
    for wrapper in _WRAPPERS:
        if isinstance(state.get(wrapper), dict):
            state = state[wrapper]
            break
    try:
        model.load_state_dict(state)
    except (RuntimeError, TypeError) as err:
        lines = " ".join(str(err).split())
        message = f"'{path}' does not fit {type(model).__name__}: {lines[:300]}"
        raise ModelSourceError(message, hint="wanted the weights of this very model") from err


def _read(file: Path) -> Mapping[str, Any]:
    import torch

    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            tensors: dict[str, Any] = load_file(file)
            return tensors
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as err:  # torch and safetensors have no error of their own for all of it
        why = str(err).partition("\n")[0]
        raise ModelSourceError(f"'{file}' cannot be read as weights: {why}") from err
    if not isinstance(state, dict):
        raise ModelSourceError(f"'{file}' holds a {type(state).__name__}, wanted a state_dict")
    return state
