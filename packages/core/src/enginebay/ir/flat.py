"""A model as the exporters like it: flat tensors in, a flat tuple of tensors out.

Imported only where torch is about to be used: the class needs it at import.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from enginebay.errors import ModelError
from enginebay.ir.tree import children, leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.ir.signature import Signature


class FlatModel(nn.Module):
    """Wraps a model without copying it.

    Every exporter gets this and nothing else, so that nested inputs, constants and dictionaries of
    outputs need no support from any of them.
    """

    def __init__(self, model: nn.Module, signature: Signature) -> None:
        super().__init__()
        self.model = model
        self.call = signature.call
        self.outputs = len(signature.outputs)
        self.training = False

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The model's output tensors, in the order of their names."""
        args, kwargs = self.call.fill(self._protected(tensors))
        return tuple(output_tensors(self.model(*args, **kwargs), self.outputs))

    def _protected(self, tensors: tuple[Tensor, ...]) -> list[Tensor]:
        # Only where the model writes into an input: a copy is a node in the graph.
        mutated = self.call.mutated
        return [tensor.clone() if i in mutated else tensor for i, tensor in enumerate(tensors)]


def output_tensors(result: Any, expected: int) -> list[Tensor]:
    """The tensors of a forward's result, in the order of their names.

    Raises:
        ModelError: They are not as many as expected: the result depends on the input, or a
            rewriter has changed it.
    """
    found = [leaf for _, leaf in output_leaves(result) if isinstance(leaf, Tensor)]
    if len(found) != expected:
        message = f"the model's forward returned {len(found)} tensors"
        raise ModelError(f"{message}; for its example inputs it returned {expected}")
    return found


def output_leaves(result: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf of a forward's result by path; ``output``, ``output_0 …`` where it has none."""
    if children(result) is None:
        yield "output", result
    elif isinstance(result, list | tuple) and not hasattr(result, "_fields"):
        for index, part in enumerate(result):
            yield from leaves(part, f"output_{index}")
    else:
        yield from leaves(result)


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and every submodule back into its own mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        _switch(model)
        yield
    finally:
        for module, training in modes:
            module.training = training


def _switch(model: nn.Module) -> None:
    # An exported program's module has its mode compiled in, and says so by raising.
    try:
        model.eval()
    except NotImplementedError:
        return
