"""The outputs of a model's modules, as outputs of the model: the same in PyTorch and in an engine.

Imported only when torch is used: the class requires it at import.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from enginebay.authors import evaluation, output_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from enginebay.authors import Call


class ModuleOutput(NamedTuple):
    """A tensor that a module returns.

    Attributes:
        module: The module's path; empty for the model itself.
        call: The number of the call, from 0.
        leaf: The number of the tensor in the module's result.
    """

    module: str
    call: int
    leaf: int

    @property
    def key(self) -> tuple[str, int]:
        """The module's path and the number of the call."""
        return self.module, self.call


class ModuleOutputsModel(nn.Module):
    """Wraps a model: it accepts flat tensors, and returns the outputs of some modules.

    Args:
        model: The model.
        call: The model's arguments, with slots for the tensors.
        outputs: The module outputs to return, in order.
    """

    def __init__(self, model: nn.Module, call: Call, outputs: Sequence[ModuleOutput]) -> None:
        super().__init__()
        self.model = model
        self.call = call
        self.outputs = tuple(outputs)
        self.training = False

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the model, and return the module outputs instead of its own."""
        requested = set(self.outputs)
        recorded: dict[ModuleOutput, Tensor] = {}

        def record(output: ModuleOutput, tensor: Tensor) -> None:
            if output in requested:
                recorded[output] = tensor.clone()  # later code may change the tensor in place

        with watch_outputs(self.model, record):
            args, kwargs = self.call.fill(tensors)
            self.model(*args, **kwargs)
        return tuple(recorded[output] for output in self.outputs)


@contextmanager
def watch_outputs(
    model: nn.Module, visit: Callable[[ModuleOutput, Tensor], None]
) -> Iterator[None]:
    """Call a function with every tensor that a module of the model returns inside the block."""
    calls: Counter[str] = Counter()

    def make_hook(path: str) -> Callable[[nn.Module, object, object], None]:
        def visit_result(_: nn.Module, __: object, result: object) -> None:
            number = calls[path]
            calls[path] += 1
            for leaf, tensor in enumerate(find_tensors(result)):
                visit(ModuleOutput(path, number, leaf), tensor)

        return visit_result

    with ExitStack() as stack:
        for path, module in hooked_modules(model):
            stack.callback(module.register_forward_hook(make_hook(path)).remove)
        yield


def hooked_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the paths and modules whose hooks are called."""
    for path, module in model.named_modules():
        # TorchScript calls its modules without their hooks.
        if not isinstance(module, torch.jit.ScriptModule):
            yield path, module


def find_tensors(result: object) -> list[Tensor]:
    """Return the tensors of a module's result, in order."""
    return [leaf for _, leaf in output_leaves(result) if isinstance(leaf, torch.Tensor)]


def record_shapes(
    model: nn.Module, call: Call, tensors: Sequence[Tensor]
) -> dict[ModuleOutput, tuple[int, ...]]:
    """Return the shape of every module output, in the order in which calls end.

    If any output is floating-point, the others are left out: integers are either equal or wrong,
    and the order of equal values may differ between engines.
    """
    shapes: dict[ModuleOutput, tuple[int, ...]] = {}
    floating: set[ModuleOutput] = set()

    def record(output: ModuleOutput, tensor: Tensor) -> None:
        if tensor.numel():
            shapes[output] = tuple(tensor.shape)
        if tensor.is_floating_point():
            floating.add(output)

    with torch.no_grad(), evaluation(model), watch_outputs(model, record):
        args, kwargs = call.fill([tensor.clone() for tensor in tensors])
        model(*args, **kwargs)
    return {output: shape for output, shape in shapes.items() if output in floating} or shapes
