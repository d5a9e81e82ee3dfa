"""A PyTorch model with an engine's interface, so that both are measured by the same code."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from enginebay import Receipt, TensorSpec, Wrapper
from enginebay.authors.arrays import to_numpy, to_torch
from enginebay.authors.sources import BoundModel, find_model, reference_model
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from enginebay.authors.arrays import NumpyArray


class TorchWrapper(Wrapper):
    """Runs a PyTorch model in evaluation mode, without gradients, on the device of its weights.

    Args:
        model: The model, bound to the names of the inputs.
        inputs: The inputs of each call by name. The model's example inputs replace missing inputs.
    """

    concurrent = True  # PyTorch runs calls of several threads at the same time

    def __init__(self, model: BoundModel, inputs: Mapping[str, NumpyArray]) -> None:
        specs = [TensorSpec(name, array.dtype.name, array.shape) for name, array in inputs.items()]
        super().__init__(inputs=specs, outputs=model.outputs)
        self._examples = model.examples
        self._device = model.device
        self._stack = ExitStack()  # the model stays in evaluation mode until release()
        assert model.signature is not None
        self._run_module = self._stack.enter_context(model.signature.runner(model.source.module))

    def execute(self, feed: dict[str, NumpyArray]) -> Sequence[NumpyArray]:
        """Call the model, and return its outputs, without copying arrays where possible."""
        arrays = [feed.get(name, example) for name, example in self._examples.items()]
        results = self._run_module([to_torch(array, self._device) for array in arrays])
        return [_share_memory(tensor) for tensor in results]

    @property
    def receipt(self) -> Receipt:
        """The device, and the version and the number of threads of torch."""
        import torch

        return Receipt(
            device=str(self._device),
            engine=f"torch {torch.__version__}",
            provider="eager",
            details={"threads": str(torch.get_num_threads())},
        )

    def release(self) -> None:
        """Restore the mode (training or evaluation) that the model had before."""
        self._stack.close()


def _share_memory(tensor: Tensor) -> NumpyArray:
    # The cheapest conversion first: its duration is measured as PyTorch's.
    try:
        array: NumpyArray = tensor.numpy()
    except (TypeError, RuntimeError):  # on another device, or in bfloat16
        return to_numpy(tensor)
    return array


def load_torch(model: str, inputs: Mapping[str, NumpyArray]) -> TorchWrapper:
    """Load a PyTorch model that is called with an artifact's ``inputs``, matched by their names.

    Raises:
        ModelSourceError: The model does not exist, or is an ONNX file, which PyTorch cannot run.
        InputError: The inputs do not fit the model.
    """
    source = find_model(model)
    if source.model is None:
        raise ModelSourceError(
            f"'{source.description}' is an ONNX file, expected a PyTorch model to compare the "
            "artifacts with",
            hint="name the PyTorch model that the file was exported from: --model MODEL",
        )
    bound = reference_model(source, list(inputs), inputs, None)
    return TorchWrapper(bound, inputs)
