"""Modules of a model, each alone: fed with what it got in PyTorch, whatever came before it.

Imported only where torch is about to be used: the class needs it at import.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from enginebay.authors import Call, evaluation
from enginebay_lab.diagnosis.taps import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from torch import Tensor


class Piece(NamedTuple):
    """A call of a module.

    Attributes:
        path: The module's path.
        number: The number of the call.
        module: The module.
        call: Its arguments, with slots for the tensors.
        tensors: Its tensors.
        leaves: Which tensors of its result are compared.
    """

    path: str
    number: int
    module: nn.Module
    call: Call
    tensors: tuple[Tensor, ...]
    leaves: tuple[int, ...]


class Pieces(nn.Module):
    """Runs pieces side by side, each on its own inputs: one engine measures them all."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__()
        self.pieces = nn.ModuleList(piece.module for piece in pieces)
        self.calls = [(piece.call, len(piece.tensors), piece.leaves) for piece in pieces]
        self.training = False

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run every piece, and return the tensors that are compared."""
        return tuple(self._results(iter(tensors)))

    def _results(self, tensors: Iterator[Tensor]) -> Iterator[Tensor]:
        for module, (call, count, leaves) in zip(self.pieces, self.calls, strict=True):
            args, kwargs = call.fill([next(tensors) for _ in range(count)])
            found = tensors_in(module(*args, **kwargs))
            for leaf in leaves:
                yield found[leaf].clone()  # two outputs must not be one tensor


def record_pieces(
    model: nn.Module,
    call: Call,
    tensors: Sequence[Tensor],
    wanted: dict[tuple[str, int], tuple[int, ...]],
) -> list[Piece]:
    """Run a model in PyTorch, and record what some of its modules are called with.

    Args:
        model: The model.
        call: How it is called.
        tensors: Its inputs.
        wanted: By the module's path and the number of the call, which tensors are compared.

    Returns:
        The calls, in the order in which they begin; without those that get no tensor.
    """
    found: list[Piece] = []
    calls: Counter[str] = Counter()

    def hook(path: str) -> Callable[[nn.Module, Any, Any], None]:
        def called(module: nn.Module, args: Any, kwargs: Any) -> None:
            number = calls[path]
            calls[path] += 1
            if (leaves := wanted.get((path, number))) is None:
                return
            # Copied here and now: a cache among them grows later, a tensor is overwritten.
            own, given = Call.record(args, kwargs)
            if given:
                found.append(Piece(path, number, module, own, tuple(given.values()), leaves))

        return called

    with torch.no_grad(), evaluation(model), ExitStack() as stack:
        for path, module in model.named_modules():
            if any(path == known for known, _ in wanted):
                handle = module.register_forward_pre_hook(hook(path), with_kwargs=True)
                stack.callback(handle.remove)
        args, kwargs = call.fill([tensor.clone() for tensor in tensors])
        model(*args, **kwargs)
    return found


def ancestors(path: str) -> Collection[str]:
    """The paths of the modules around a module, the model itself left out.

    Example:
        >>> list(ancestors("body.0.conv"))
        ['body', 'body.0']
    """
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]
