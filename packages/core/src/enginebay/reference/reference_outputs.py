"""The reference of a verdict: the unpatched PyTorch model, ONNX's evaluator, or a second engine."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, ModelSourceError, first_line
from enginebay.evaluator import EVALUATOR_TIMEOUT, evaluate_some
from enginebay.models import bind
from enginebay.tensors import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.backend import BackendHooks
    from enginebay.inference import Receipt
    from enginebay.models import BoundModel
    from enginebay.params import BackendParams
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


class OnnxReference:
    """Runs an ONNX file in onnx's reference evaluator or, if that fails, in a second engine.

    Args:
        path: The ONNX file.
        backend: The backend to verify, which is not used as a reference.

    Attributes:
        description: Name of the reference in the verdict.
        inexact: Why a second engine was used; empty if it was not.
    """

    def __init__(self, path: Path, backend: str) -> None:
        self._path = path
        self._backend = backend
        self.description = "onnx's reference evaluator"
        self.inexact = ""

    def compute_outputs(self, samples: Sequence[Mapping[str, NumpyArray]]) -> list[Arrays]:
        """Return the outputs of the evaluator, or of the first engine that can run the file.

        Raises:
            ModelSourceError: Neither the evaluator nor another engine can run the file.
        """
        found = self.compute_some(samples, len(samples))
        return [outputs for outputs in found if not isinstance(outputs, str)]

    def compute_some(
        self, samples: Sequence[Mapping[str, NumpyArray]], required: int
    ) -> list[Arrays | str]:
        """Return the outputs of each sample; after the required ones, a reason if there are none.

        Raises:
            ModelSourceError: Neither the evaluator nor another engine can run the file.
        """
        from enginebay.backend import load_hooks
        from enginebay.plugins import installed_backends

        try:
            return evaluate_some(self._path, samples, required)
        except EnginebayError as err:
            failures = [str(err)]
        for name in installed_backends():
            if name == self._backend:
                continue
            try:
                outputs = _run_engine(load_hooks(name), self._path, samples, required)
            except EnginebayError as err:
                failures.append(f"{name}: {err}")
            else:
                self.description = f"{name}, a second engine"
                self.inexact = failures[0]
                return outputs
        raise ModelSourceError(
            f"no reference for '{self._path.name}': neither onnx's evaluator nor another installed "
            f"engine can run the file: {'; '.join(failures)}"
        )


def _run_engine(
    backend: BackendHooks, path: Path, samples: Sequence[Mapping[str, NumpyArray]], required: int
) -> list[Arrays | str]:
    """Run an engine on all samples, or else on the required ones."""
    try:
        return [*engine_outputs(backend, path, samples)[0]]
    except EnginebayError as err:
        outputs, _ = engine_outputs(backend, path, samples[:required])
        return [*outputs, *[first_line(err)] * (len(samples) - required)]


def engine_outputs(
    backend: BackendHooks,
    path: Path,
    samples: Sequence[Mapping[str, NumpyArray]],
    params: BackendParams | None = None,
    *,
    timeout: float = EVALUATOR_TIMEOUT,
) -> tuple[list[Arrays], Receipt]:
    """Convert an ONNX file, and run the engine in a child process.

    Args:
        backend: The backend that converts and runs the file.
        path: The ONNX file.
        samples: For each run, the inputs by name.
        params: The backend's parameters; None for its defaults.
        timeout: Seconds that loading and all runs may take together.

    Returns:
        The outputs of each run, and the engine's receipt.

    Raises:
        EnginebayError: The file cannot be converted, loaded or run, or the engine crashed.
    """
    from enginebay.artifact import ConvertedEngine
    from enginebay.hooks import ConvertRequest
    from enginebay.ir import read_ir
    from enginebay.verification import run_trial

    ir = read_ir(path)
    with TemporaryDirectory(prefix="enginebay-reference-") as folder:
        directory = Path(folder)
        chosen = params or backend.Params()
        files = backend.convert(ConvertRequest(ir=ir, params=chosen, work_dir=directory))
        request = ConvertedEngine(backend, chosen, ir, files).load_request(directory)
        return run_trial(request, [Sample(dict(inputs), {}) for inputs in samples], timeout=timeout)


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
