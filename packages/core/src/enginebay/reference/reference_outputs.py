"""The reference of a verdict: the unpatched PyTorch model, or onnx's evaluator for other files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from enginebay.models import bind
from enginebay.reference.file_reference import OnnxReference
from enginebay.tensors import equal_arrays, to_torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.models import BoundModel
    from enginebay.params import DynamicShapes
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
    dynamic: DynamicShapes | None = None,
) -> BoundModel:
    """Bind a model so that its inputs and outputs have the same names as in an artifact or a file.

    Args:
        source: The model.
        names: The names of the artifact's inputs.
        inputs: Input name in the artifact → array; None for the model's own example.
        output_names: The names of the artifact's outputs.
        dynamic: The artifact's dynamic dimensions; None to run it at the sizes of its samples.

    Raises:
        InputError: The inputs do not fit the model, or are missing; or the model returns other
            outputs.
    """
    open_model = partial(bind, source, expected_outputs=output_names, dynamic=dynamic)
    # The model's own example comes first: only it shows how arguments are nested, since the inputs
    # of an artifact are flat. An artifact may leave out inputs that no node uses, or rename inputs.
    if source.example_inputs is None and inputs is not None:
        names = list(inputs)
        renamed = None if set(names) <= set(source.input_names) else names
        return open_model(dict(inputs), input_names=renamed)
    own_names: Sequence[str] | None = None
    bound = open_model()
    if not set(names) <= set(bound.examples):
        own_names = names
        bound = open_model(input_names=names)
    assert bound.signature is not None
    given = {**bound.examples, **(inputs or {})}
    if equal_arrays(bound.examples, {name: given[name] for name in bound.examples}):
        return bound
    tensors = [to_torch(given[name], bound.device) for name in bound.examples]
    args, keywords = bound.signature.call.fill(tensors)
    return open_model((*args, keywords), input_names=own_names)
