"""Weights of a model: random ones from a fixed seed, or those in a local file."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

from enginebay import torch_private
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from torch import Tensor, nn

#: The description of weights that are not trained.
RANDOM_WEIGHTS = "random (seed 0)"

#: The keys under which training frameworks store the ``state_dict`` in a checkpoint.
_WRAPPERS = ("state_dict", "model_state_dict", "model")

#: The latest file of weights whose names had a prefix that was removed, and the prefix. A plugin
#: loads the file, and core describes it afterwards.
_PREFIXED: ContextVar[tuple[str, str]] = ContextVar("prefixed", default=("", ""))


def weights_text(weights: str) -> str:
    """Describe the origin of weights; if they are random, add the flags that load other weights."""
    if weights != RANDOM_WEIGHTS:
        return weights
    return f"{weights}: the outputs are meaningless; use --pretrained or --weights FILE"


@contextmanager
def fixed_seed() -> Iterator[None]:
    """Set torch's random seed to 0 inside the block, and restore the generator afterwards.

    A model with random weights is then the same in every run, and so is its artifact.

    Example:
        >>> import torch
        >>> with fixed_seed():
        ...     first = torch.rand(2)
        >>> with fixed_seed():
        ...     print(torch.equal(first, torch.rand(2)))
        True
    """
    import torch

    # Only the CPU's generator: by default, torch initialises every GPU to save its generator.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def measure_norms(model: nn.Module, examples: Tensor) -> None:
    """Measure the batch normalisation statistics of a model with random weights.

    With the initial statistics, the output of a deep network hardly depends on the input:
    MobileNet-V2's scores of two images can agree to five digits, EfficientNet's are as small as
    1e-14. An engine in which only the last bias is right would then be verified.

    Args:
        model: The model, which is in evaluation mode afterwards.
        examples: A float32 batch of more than one example: after global pooling a norm gets one
            value per example and channel, and the variance of a single value is undefined.

    Example:
        >>> import torch
        >>> norm = torch.nn.BatchNorm1d(1)
        >>> measure_norms(norm, torch.tensor([[3.0], [5.0]]))
        >>> norm(torch.tensor([[4.0]])).item()
        0.0
    """
    import torch

    batch_norm: Any = torch_private.batch_norm_class()
    model.eval()
    norms = [part for part in model.modules() if isinstance(part, batch_norm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        # The running statistics are then those of this batch alone.
        norm.momentum = 1.0
        # Only the norms: dropout and the like stay in evaluation mode.
        norm.train()
    with torch.no_grad():
        model(examples)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()


def load_weights(model: nn.Module, path: str) -> None:
    """Load weights from a local file, without executing anything in it.

    Args:
        model: The model, with exactly the parameters and buffers in the file.
        path: A ``state_dict`` that ``torch.save`` wrote, or a checkpoint with a ``state_dict``
            under the key ``state_dict``, ``model_state_dict`` or ``model``; or a ``.safetensors``
            file. A prefix that all names share is removed, such as ``module.`` of DataParallel.

    Raises:
        ModelSourceError: The file is missing, unreadable, or for another model.
    """
    file = Path(path)
    if not file.is_file():
        raise ModelSourceError(f"no weights file '{path}'", hint="pass --weights FILE")
    take_weights(model, _read_weights(file), path)


def describe_weights(path: str) -> str:
    """Return the path of a file of weights with its digest: ``/models/best.pt, sha256 9f86…``.

    If :func:`take_weights` removed a prefix from the names in this file, the text ends with it.
    """
    origin, prefix = _PREFIXED.get()
    removed = f", without the prefix '{prefix}' of its names" if prefix and origin == path else ""
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{Path(path).absolute()}, sha256 {digest}{removed}"


def digest_weights(model: nn.Module) -> str:
    """Return the SHA-256 of a model's parameters and buffers, with their names; "" if unknown."""
    import numpy as np

    from enginebay.tensors import is_torch, to_numpy

    digest = hashlib.sha256()
    try:
        for name, value in model.state_dict().items():
            digest.update(f"{name} {getattr(value, 'dtype', '')} ".encode())
            if is_torch(value):
                digest.update(f"{tuple(value.shape)}".encode())
                # Not tobytes: a copy of gigabytes takes as long as their digest.
                digest.update(np.ascontiguousarray(to_numpy(value)).reshape(-1).view(np.uint8).data)
    except Exception:  # noqa: BLE001  # a model's own state_dict, or tensors that NumPy lacks
        return ""
    return digest.hexdigest()


def take_weights(model: nn.Module, weights: Mapping[str, Any], origin: str) -> None:
    """Load weights from memory into a model.

    Args:
        model: The model, with exactly the parameters and buffers in ``weights``.
        weights: A ``state_dict``, or a checkpoint with one, as in :func:`load_weights`.
        origin: The file or address of the weights, for messages.

    Raises:
        ModelSourceError: The weights are for another model.
    """
    inner = (weights[name] for name in _WRAPPERS if isinstance(weights.get(name), dict))
    state = next(inner, weights)
    own = list(model.state_dict())
    # The text before the model's first name, such as `module.` in a checkpoint of DataParallel.
    first = f".{own[0]}" if own else "."
    prefix = next((name[: 1 - len(first)] for name in state if str(name).endswith(first)), "")
    shared = prefix if {f"{prefix}{name}" for name in own} == {*state} else ""
    state = {name.removeprefix(shared): value for name, value in state.items()} if shared else state
    _PREFIXED.set((origin, shared))
    try:
        model.load_state_dict(state)
    except (RuntimeError, TypeError) as err:
        first, *lines = str(err).splitlines()  # torch lists every tensor of another shape
        why = _describe_difference(own, state) or (lines or [first])[0].strip()[:300]
        message = f"'{origin}' does not fit {type(model).__name__}: {why}"
        raise ModelSourceError(
            message, hint="pass weights with exactly the tensors of this model"
        ) from err


def _describe_difference(own: Sequence[str], loaded: Collection[str]) -> str:
    """Describe the tensors that are missing or unknown in the loaded weights; "" if none."""
    missing = [name for name in own if name not in loaded]
    unknown = [name for name in loaded if name not in own]
    words = [
        f"{word} {len(names)} of {of} tensors, such as '{names[0]}'"
        for word, names, of in (("missing", missing, len(own)), ("unknown", unknown, len(loaded)))
        if names
    ]
    return "; ".join(words)


def _read_weights(file: Path) -> Mapping[str, Any]:
    import torch

    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            tensors: dict[str, Tensor] = load_file(file)
            return tensors
        # Mapped, so that the weights are in memory once; the format before torch 1.6 cannot be.
        mmap = is_zipfile(file)
        state = torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as err:  # torch and safetensors raise many types
        why = str(err).partition("\n")[0].partition(". ")[0]
        raise ModelSourceError(
            f"'{file}' cannot be read as weights: {why}",
            hint="write the file by torch.save(model.state_dict(), FILE)",
        ) from err
    if not isinstance(state, dict):
        raise ModelSourceError(f"'{file}' contains a {type(state).__name__}, expected a state_dict")
    return state
