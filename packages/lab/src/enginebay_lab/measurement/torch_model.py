"""A PyTorch model behind the wrapper contract, so that it is measured as an engine is."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from enginebay import Receipt, TensorSpec, Wrapper
from enginebay.authors import BoundModel, find_model, reference_model, to_numpy, to_torch
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from enginebay.authors import NumpyArray


class TorchWrapper(Wrapper):
    """Runs a module in evaluation mode and without gradients, where its parameters lie.

    Args:
        model: The model, whose inputs are bound.
        inputs: What it will be called with; what they lack is taken from its example.
    """

    concurrent = True

    def __init__(self, model: BoundModel, inputs: Mapping[str, NumpyArray]) -> None:
        specs = [TensorSpec(name, each.dtype.name, each.shape) for name, each in inputs.items()]
        super().__init__(inputs=specs, outputs=model.outputs)
        self._examples = model.examples
        self._device = model.device
        self._stack = ExitStack()
        assert model.signature is not None
        self._run_module = self._stack.enter_context(model.signature.runner(model.source.module))

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Call the module on tensors that share the arrays' memory where they can."""
        given = [feed.get(name, example) for name, example in self._examples.items()]
        results = self._run_module([to_torch(array, self._device) for array in given])
        return [_array(tensor) for tensor in results]

    @property
    def receipt(self) -> Receipt:
        """The version of torch, and its number of threads."""
        import torch

        return Receipt(
            device=str(self._device),
            engine=f"torch {torch.__version__}",
            provider="eager",
            details={"threads": str(torch.get_num_threads())},
        )

    def release(self) -> None:
        """Put the module back into its own mode."""
        self._stack.close()


def _array(tensor: Tensor) -> NumpyArray:
    """Share a tensor's memory at the least cost, which would count against PyTorch."""
    try:
        array: NumpyArray = tensor.numpy()
    except (TypeError, RuntimeError):  # on another device, or in bfloat16
        return to_numpy(tensor)
    return array


def load_torch(model: str, inputs: Mapping[str, NumpyArray]) -> TorchWrapper:
    """Load a model so that it takes an artifact's inputs by the artifact's names.

    Raises:
        ModelSourceError: There is no such model, or it is an ONNX file, which PyTorch cannot run.
        InputError: The inputs do not fit it.
    """
    source = find_model(model)
    if source.model is None:
        raise ModelSourceError(
            f"'{source.description}' does not run in PyTorch, which is to be compared with",
            hint="name the PyTorch model that it was made from: --model MODEL",
        )
    bound = reference_model(source, list(inputs), inputs, None)
    return TorchWrapper(bound, inputs)
