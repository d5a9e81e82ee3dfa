"""A model as the exporters like it: flat tensors in, a flat tuple of tensors out.

Imported only where torch is about to be used: the class needs it at import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from enginebay.models import output_tensors

if TYPE_CHECKING:
    from enginebay.models import Signature


class FlatModel(nn.Module):
    """Wraps a model without copying it.

    Every exporter gets this and nothing else, so that nested inputs, constants and dictionaries of
    outputs need no support from any of them.
    """

    def __init__(self, model: nn.Module, signature: Signature) -> None:
        super().__init__()
        self.model = model
        self.call = signature.call
        self.places = signature.places
        self.training = False

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The model's output tensors, in the order of their names."""
        args, kwargs = self.call.fill(self._protected(tensors))
        result = self.model(*args, **kwargs)
        return tuple(output_tensors(result, self.places, caches=self.call.caches))

    def _protected(self, tensors: tuple[Tensor, ...]) -> list[Tensor]:
        # Only where the model writes into an input: a copy is a node in the graph.
        mutated = self.call.mutated
        return [tensor.clone() if i in mutated else tensor for i, tensor in enumerate(tensors)]
