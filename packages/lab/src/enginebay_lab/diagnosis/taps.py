"""A model that returns what its modules return: the same tensors in PyTorch and in an engine.

Imported only where torch is about to be used: the class needs it at import.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from enginebay.authors import evaluation, output_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from enginebay.authors import Call


class Tap(NamedTuple):
    """A tensor that a module returns.

    Attributes:
        module: The module's path; empty for the model itself.
        call: The number of the call, from 0.
        leaf: The number of the tensor in the module's result.
    """

    module: str
    call: int
    leaf: int


class Tapped(nn.Module):
    """Wraps a model: flat tensors in, and out what it returns at some taps.

    Args:
        model: The model.
        call: How the tensors become its arguments.
        taps: What to return, in order.
    """

    def __init__(self, model: nn.Module, call: Call, taps: Sequence[Tap]) -> None:
        super().__init__()
        self.model = model
        self.call = call
        self.taps = tuple(taps)
        self.training = False

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the model, and return the taps instead of its outputs."""
        wanted = set(self.taps)
        found: dict[Tap, Tensor] = {}

        def keep(tap: Tap, tensor: Tensor) -> None:
            if tap in wanted:
                found[tap] = tensor.clone()  # the model may go on in place

        with watching(self.model, keep):
            args, kwargs = self.call.fill(tensors)
            self.model(*args, **kwargs)
        return tuple(found[tap] for tap in self.taps)


@contextmanager
def watching(model: nn.Module, visit: Callable[[Tap, Tensor], None]) -> Iterator[None]:
    """Call a function with every tensor that a module of the model returns inside the block."""
    calls: Counter[str] = Counter()

    def hook(path: str) -> Callable[[nn.Module, Any, Any], None]:
        def returned(_: nn.Module, __: Any, result: Any) -> None:
            number = calls[path]
            calls[path] += 1
            for leaf, tensor in enumerate(tensors_in(result)):
                visit(Tap(path, number, leaf), tensor)

        return returned

    with ExitStack() as stack:
        for path, module in hooked_modules(model):
            stack.callback(module.register_forward_hook(hook(path)).remove)
        yield


def hooked_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules whose hooks are called, by path: TorchScript calls its own without them."""
    for path, module in model.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):
            yield path, module


def tensors_in(result: Any) -> list[Tensor]:
    """The tensors of a module's result, in order."""
    return [leaf for _, leaf in output_leaves(result) if isinstance(leaf, torch.Tensor)]


def sizes(model: nn.Module, call: Call, tensors: Sequence[Tensor]) -> dict[Tap, tuple[int, ...]]:
    """Every tap of a model in the order in which calls end, with its shape.

    Those of integers are left out beside floating-point numbers: nothing there can be off by
    little, and the order of values that tie may differ.
    """
    found: dict[Tap, tuple[int, ...]] = {}
    floating: set[Tap] = set()

    def note(tap: Tap, tensor: Tensor) -> None:
        if tensor.numel():
            found[tap] = tuple(tensor.shape)
        if tensor.is_floating_point():
            floating.add(tap)

    with torch.no_grad(), evaluation(model), watching(model, note):
        args, kwargs = call.fill([tensor.clone() for tensor in tensors])
        model(*args, **kwargs)
    return {tap: shape for tap, shape in found.items() if tap in floating} or found
