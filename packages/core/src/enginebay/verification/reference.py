"""The reference of a verdict: the unpatched PyTorch model, or ONNX's own evaluator."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from enginebay.errors import EnginebayError, ModelSourceError
from enginebay.models import bind
from enginebay.tensors import Sample, load_samples, save_samples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.backend import Backend
    from enginebay.inference import Receipt
    from enginebay.models import BoundModel, ModelSource
    from enginebay.params import BackendParams
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]

#: Seconds for onnx's evaluator, which is written for clarity: a ResNet-50 takes some 20 s.
EVALUATOR_TIMEOUT = 300.0


class Reference(Protocol):
    """Gives the outputs that an engine should give.

    Attributes:
        description: Its name in the verdict: ``the PyTorch model, unpatched``.
    """

    description: str

    def outputs(self, samples: Sequence[Mapping[str, NumpyArray]]) -> list[Arrays]:
        """The outputs by name, for each set of inputs."""
        ...


class TorchReference:
    """The model itself, in PyTorch, with no rewriter applied."""

    def __init__(self, model: BoundModel) -> None:
        self._model = model
        file = model.source.ir
        self.description = (
            f"'{file.path.name}' in PyTorch" if file else "the PyTorch model, unpatched"
        )

    def outputs(self, samples: Sequence[Mapping[str, NumpyArray]]) -> list[Arrays]:
        """Run a forward pass in evaluation mode for each."""
        return [self._model.run(inputs) for inputs in samples]


class OnnxReference:
    """An ONNX file, run by onnx's reference evaluator in a child process, or by a second engine.

    Args:
        path: The file.
        backend: The engine that is to be verified, which cannot vouch for itself.
    """

    def __init__(self, path: Path, backend: str) -> None:
        self._path = path
        self._backend = backend
        self.description = "onnx's reference evaluator"

    def outputs(self, samples: Sequence[Mapping[str, NumpyArray]]) -> list[Arrays]:
        """The outputs by the first judge that can run the file.

        Raises:
            ModelSourceError: Neither the evaluator nor another engine can; says why.
        """
        from enginebay.backend import get_backend

        failures = []
        try:
            return evaluator_outputs(self._path, samples)
        except EnginebayError as err:
            failures.append(str(err))
        for name in _other_engines(self._backend):
            try:
                outputs, _ = engine_outputs(get_backend(name), self._path, samples)
            except EnginebayError as err:
                failures.append(f"{name}: {err}")
            else:
                self.description = f"{name}, a second engine"
                return outputs
        raise ModelSourceError(
            f"nothing here can say what '{self._path.name}' should give: {'; '.join(failures)}"
        )


def evaluator_outputs(
    path: Path, samples: Sequence[Mapping[str, NumpyArray]], *, timeout: float = EVALUATOR_TIMEOUT
) -> list[Arrays]:
    """Run an ONNX file with onnx's reference evaluator, in a child process.

    Args:
        path: The file.
        samples: Sets of inputs by name.
        timeout: Seconds that all of it may take.

    Raises:
        EnginebayError: The evaluator cannot run it, did not end in time, or crashed.
    """
    from enginebay.isolation import call

    with TemporaryDirectory(prefix="enginebay-reference-") as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        save_samples(given, [Sample(dict(inputs), {}) for inputs in samples])
        function = "enginebay.verification.reference:evaluate"
        call(function, path, given, found, timeout=timeout, result_type=type(None))
        return [sample.outputs for sample in load_samples(found)]


def engine_outputs(
    backend: Backend,
    path: Path,
    samples: Sequence[Mapping[str, NumpyArray]],
    params: BackendParams | None = None,
    *,
    timeout: float = EVALUATOR_TIMEOUT,
) -> tuple[list[Arrays], Receipt]:
    """Convert an ONNX file, and run the engine in a child process.

    Args:
        backend: The engine.
        path: The file.
        samples: Sets of inputs by name.
        params: The backend's parameters; by default its own.
        timeout: Seconds that loading and all runs may take together.

    Returns:
        The outputs of each, and what the engine says that it ran.

    Raises:
        EnginebayError: It cannot be converted, loaded or run, or crashed.
    """
    from enginebay.artifact import LoadRequest, portable
    from enginebay.backend import read_ir
    from enginebay.hooks import ConvertRequest
    from enginebay.verification.engine_trial import run_trial

    ir = read_ir(path)
    with TemporaryDirectory(prefix="enginebay-reference-") as folder:
        directory = Path(folder)
        chosen = params or backend.Params()
        files = backend.convert(ConvertRequest(ir=ir, params=chosen, work_dir=directory))
        given = directory / "given.npz"
        save_samples(given, [Sample(dict(inputs), {}) for inputs in samples])
        request = LoadRequest(
            backend=backend.name,
            directory=directory,
            files=files,
            params=portable(chosen),
            inputs=ir.inputs,
            outputs=ir.outputs,
        )
        return run_trial(request, given, timeout=timeout)


def evaluate(path: Path, given: Path, found: Path) -> None:
    """Run onnx's evaluator on recorded inputs; called in a child process."""
    from enginebay.verification.onnx_evaluator import reference_outputs

    samples = [Sample({}, reference_outputs(path, one.inputs)) for one in load_samples(given)]
    save_samples(found, samples)


def _other_engines(backend: str) -> Sequence[str]:
    from enginebay.plugins import installed_backends

    return [name for name in installed_backends() if name != backend]


def reference_for(model: BoundModel, backend: str) -> Reference:
    """The reference of a model.

    Args:
        model: The model.
        backend: The engine that is to be verified.
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
    """Bind a model so that it takes an artifact's inputs by the artifact's names.

    The model's own example comes first, since it says how arguments nest, and the inputs of an
    artifact are flat. An artifact may lack inputs that no node uses, and may have names of its own.

    Args:
        source: The model.
        names: The artifact's names of the inputs.
        inputs: Inputs by these names; None where there are none but the model's own.
        output_names: The artifact's names of the outputs.

    Raises:
        InputError: The inputs do not fit the model, or there are none.
    """
    if source.example_inputs is None and inputs is not None:
        names = list(inputs)
        own_names = None if set(names) <= set(source.input_names) else names
        return bind(source, dict(inputs), input_names=own_names, output_names=output_names)
    bound = bind(source, output_names=output_names)
    if set(names) <= set(bound.examples):
        return bound
    return bind(source, input_names=names, output_names=output_names)
