"""Model wrapper for exporters, which takes tensors and returns a tuple of tensors.

Import this file lazily: it imports torch at its top, since the class derives from ``nn.Module``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, jit, nn

from enginebay.exporters.flat_script import flatten_script
from enginebay.state import output_tensors

if TYPE_CHECKING:
    from enginebay.models import Signature


class FlatModel(nn.Module):
    """Wraps a model without copying it; all inputs and outputs of the wrapper are tensors.

    So exporters need not support nested inputs, constant arguments or dictionaries of outputs.
    """

    def __init__(self, model: nn.Module, signature: Signature) -> None:
        super().__init__()
        flat = flatten_script(model, signature) if isinstance(model, jit.ScriptModule) else None
        self.is_flat = flat is not None
        self.model = flat or model
        self.call = signature.call
        self.places = signature.output_paths
        # A new module is in training mode; the model inside is already in evaluation mode.
        self.training = False

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the model's output tensors, in the order of their names."""
        own = self._clone_mutated(tensors)
        if self.is_flat:
            results: tuple[Tensor, ...] = self.model(*own)
            return results
        args, kwargs = self.call.fill(own)
        result = self.model(*args, **kwargs)
        return tuple(output_tensors(result, self.places, caches=self.call.caches))

    def _clone_mutated(self, tensors: tuple[Tensor, ...]) -> list[Tensor]:
        # Only inputs that the model writes into, since every copy becomes a node in the graph.
        mutated = self.call.mutated
        return [tensor.clone() if i in mutated else tensor for i, tensor in enumerate(tensors)]
