"""The reference of a verdict: the unpatched PyTorch model, or onnx's evaluator for other files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.models import bind
from enginebay.reference.file_reference import OnnxReference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.models import BoundModel
    from enginebay.sources import ModelSource
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]


class TorchReference:
    """Runs the model itself in PyTorch, with no rewriter applied.

    Attributes:
        description: Name of the reference in the verdict: ``the PyTorch model, unpatched``, with
            the device that PyTorch computed on if it is not the CPU.
    """

    def __init__(self, model: BoundModel) -> None:
        self._model = model
        file = model.source.ir
        name = f"'{file.path.name}' in PyTorch" if file else "the PyTorch model, unpatched"
        # Devices differ: a row of attention that is masked whole is 0 on the CPU, and a mean by
        # cuDNN.
        device = model.device.type
        self.description = name if device == "cpu" else f"{name}, on {device}"

    def compute_outputs(self, samples: Sequence[Mapping[str, NumpyArray]]) -> list[Arrays]:
        """Run a forward pass in evaluation mode for each set of inputs."""
        return [self._model.run(inputs) for inputs in samples]


def reference_for(model: BoundModel, backend: str) -> TorchReference | OnnxReference:
    """Return a model's reference: PyTorch, or ONNX's evaluator if PyTorch cannot run the model.

    Args:
        model: The model.
        backend: The backend to verify, which is not used as a reference.
    """
    if model.signature is not None:
        return TorchReference(model)
    assert model.source.ir is not None
    return OnnxReference(model.source.ir.path, backend)


def reference_model(
    source: ModelSource,
    names: Sequence[str],
    inputs: Mapping[str, NumpyArray] | None,
    output_names: Sequence[str] | None,
) -> BoundModel:
    """Bind a model so that its inputs and outputs have the same names as in an artifact.

    Args:
        source: The model.
        names: The names of the artifact's inputs.
        inputs: Input name in the artifact → array; None for the model's own example.
        output_names: The names of the artifact's outputs.

    Raises:
        InputError: The inputs do not fit the model, or are missing.
    """
    # The model's own example comes first: only it shows how arguments are nested, since the inputs
    # of an artifact are flat. An artifact may leave out inputs that no node uses, or rename inputs.
    if source.example_inputs is None and inputs is not None:
        names = list(inputs)
        own_names = None if set(names) <= set(source.input_names) else names
        return bind(source, dict(inputs), input_names=own_names, output_names=output_names)
    bound = bind(source, output_names=output_names)
    if set(names) <= set(bound.examples):
        return bound
    return bind(source, input_names=names, output_names=output_names)
