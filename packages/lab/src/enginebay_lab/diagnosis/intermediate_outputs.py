"""A model wrapper that returns the outputs of the model's modules, so that engines can return them.

Imported only when torch is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from enginebay.authors.arrays import output_leaves
from enginebay.authors.sources import evaluation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from enginebay.authors.sources import Call


class ModuleOutput(NamedTuple):
    """The identity of a tensor that a module returns: the module, the call and an index.

    Attributes:
        module: The module's path; empty for the model itself.
        call: The index of the call among the module's calls, from 0.
        leaf: The index of the tensor among the tensors of the call's result.
    """

    module: str
    call: int
    leaf: int

    @property
    def key(self) -> tuple[str, int]:
        """The module's path and the index of the call."""
        return self.module, self.call


class ModuleOutputsModel(nn.Module):
    """A wrapper that runs a model on input tensors, and returns the outputs of some modules.

    Args:
        model: The PyTorch model to run.
        call: The model's arguments, with a placeholder for each tensor.
        outputs: The module outputs to return, in this order.
    """

    def __init__(self, model: nn.Module, call: Call, outputs: Sequence[ModuleOutput]) -> None:
        super().__init__()
        self.model = model
        self.call = call
        self.outputs = tuple(outputs)
        # Not eval(), which would also change the modes of the model's modules.
        self.training = False

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the model on its input tensors, and return the module outputs."""
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
    """In a ``with`` block, call ``visit`` with each tensor that a module of the model returns."""
    calls: Counter[str] = Counter()
    running: defaultdict[str, list[int]] = defaultdict(list)

    # Calls are numbered when they begin, as in record_calls(): a call that raises has a number too.
    def begin_call(path: str, *_: object) -> None:
        running[path].append(calls[path])
        calls[path] += 1

    def visit_result(path: str, _: nn.Module, __: object, result: object) -> None:
        number = running[path].pop()
        for leaf, tensor in enumerate(find_tensors(result)):
            visit(ModuleOutput(path, number, leaf), tensor)

    with ExitStack() as stack:
        for path, module in hooked_modules(model):
            for hook in (
                module.register_forward_pre_hook(partial(begin_call, path), prepend=True),
                module.register_forward_hook(partial(visit_result, path)),
            ):
                stack.callback(hook.remove)
        yield


def hooked_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module with its path, except for TorchScript modules, which run no hooks."""
    for path, module in model.named_modules():
        # TorchScript calls its modules without their hooks.
        if not isinstance(module, torch.jit.ScriptModule):
            yield path, module


def find_tensors(result: object) -> list[Tensor]:
    """Return the tensors in a module's result, in order; the result may be nested."""
    return [leaf for _, leaf in output_leaves(result) if isinstance(leaf, torch.Tensor)]


def record_shapes(
    model: nn.Module, call: Call, tensors: Sequence[Tensor]
) -> dict[ModuleOutput, tuple[int, ...]]:
    """Run a model, and return the shapes of its modules' outputs, in the order in which calls end.

    If any output is floating-point, only the shapes of floating-point outputs are returned, and
    those of the model itself if it only returns integers.
    """
    shapes: dict[ModuleOutput, tuple[int, ...]] = {}
    floating: set[ModuleOutput] = set()

    def record(output: ModuleOutput, tensor: Tensor) -> None:
        if tensor.numel():  # an empty tensor has no values to compare
            shapes[output] = tuple(tensor.shape)
        if tensor.is_floating_point():
            floating.add(output)

    with torch.no_grad(), evaluation(model), watch_outputs(model, record):
        # Clones, because a module may change its input in place.
        args, kwargs = call.fill([tensor.clone() for tensor in tensors])
        model(*args, **kwargs)
    # Integers have no tolerance, and the order of equal values may differ between engines. But a
    # search starts from a wrong output of the model, which may be an integer.
    if not any(output.module == "" for output in floating):
        floating |= {output for output in shapes if output.module == "" or not floating}
    return {output: shape for output, shape in shapes.items() if output in floating}
