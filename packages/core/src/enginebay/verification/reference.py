"""What an artifact is held against: the unpatched PyTorch model, or ONNX's own evaluator."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from enginebay.errors import EnginebayError, ModelSourceError
from enginebay.models import find_model
from enginebay.tensors import Sample, load_samples, save_samples, to_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

    from enginebay.models import ModelSource, Signature
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]

#: Seconds for onnx's evaluator, which is written for clarity: a ResNet-50 takes some 20 s.
EVALUATOR_TIMEOUT = 300.0


class Reference(Protocol):
    """Answers what should come out.

    Attributes:
        description: What it is, for the verdict: ``the PyTorch model, unpatched``.
    """

    description: str

    def outputs(self, inputs: Mapping[str, NumpyArray]) -> Arrays:
        """The outputs by name."""
        ...


class TorchReference:
    """The model itself, in PyTorch, with no rewriter applied."""

    def __init__(self, model: nn.Module, signature: Signature, description: str) -> None:
        self._model = model
        self._signature = signature
        self.description = description

    def outputs(self, inputs: Mapping[str, NumpyArray]) -> Arrays:
        """One forward pass in evaluation mode."""
        import torch

        from enginebay.tensors import to_torch

        device = next((p.device for p in self._model.parameters()), torch.device("cpu"))
        tensors = {name: to_torch(array, device) for name, array in inputs.items()}
        return {
            name: to_numpy(tensor)
            for name, tensor in self._signature.run(self._model, tensors).items()
        }


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

    def outputs(self, inputs: Mapping[str, NumpyArray]) -> Arrays:
        """The outputs by the first judge that can run the file.

        Raises:
            ModelSourceError: Neither the evaluator nor another engine can; says why.
        """
        failures = []
        try:
            return self._evaluate(inputs)
        except EnginebayError as err:
            failures.append(str(err))
        for name in _other_engines(self._backend):
            try:
                outputs = self._run_engine(name, inputs)
            except EnginebayError as err:
                failures.append(f"{name}: {err}")
            else:
                self.description = f"{name}, a second engine"
                return outputs
        raise ModelSourceError(
            f"nothing here can say what '{self._path.name}' should give: {'; '.join(failures)}"
        )

    def _evaluate(self, inputs: Mapping[str, NumpyArray]) -> Arrays:
        from enginebay.isolation import call

        with TemporaryDirectory(prefix="enginebay-reference-") as folder:
            given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
            save_samples(given, [Sample(dict(inputs), {})])
            function = "enginebay.verification.reference:evaluate"
            call(
                function,
                self._path,
                given,
                found,
                timeout=EVALUATOR_TIMEOUT,
                result_type=type(None),
            )
            return load_samples(found)[0].outputs

    def _run_engine(self, name: str, inputs: Mapping[str, NumpyArray]) -> Arrays:
        from enginebay.backend import get_backend, read_ir
        from enginebay.verification.trial import Trial, run_trial

        backend = get_backend(name)
        ir = read_ir(self._path)
        with TemporaryDirectory(prefix="enginebay-reference-") as folder:
            directory = Path(folder)
            params = backend.Params()
            files = backend.convert(ir, params, directory)
            save_samples(directory / "given.npz", [Sample(dict(inputs), {})])
            trial = Trial(
                backend=name,
                directory=directory,
                files=files,
                params=params.to_mapping(),
                inputs=ir.inputs,
                outputs=ir.outputs,
                samples=directory / "given.npz",
            )
            (outputs,), _ = run_trial(trial, timeout=EVALUATOR_TIMEOUT)
            return outputs


def evaluate(path: Path, given: Path, found: Path) -> None:
    """Run onnx's evaluator on recorded inputs; called in a child process."""
    from enginebay.verification.onnx_evaluator import reference_outputs

    samples = [Sample({}, reference_outputs(path, one.inputs)) for one in load_samples(given)]
    save_samples(found, samples)


def _other_engines(backend: str) -> Sequence[str]:
    from enginebay.plugins import list_backends

    return [s.name for s in list_backends() if s.state == "installed" and s.name != backend]


def reference_for(source: Any, inputs: Mapping[str, NumpyArray], backend: str) -> Reference:
    """The reference that a model source stands for.

    Args:
        source: An ``nn.Module``, or text that names a model as on the command line.
        inputs: Inputs by name, to bind to the model's ``forward``.
        backend: The engine that is to be verified.
    """
    loaded = find_model(source)
    if loaded.model is None:
        assert loaded.ir is not None
        return OnnxReference(loaded.ir.path, backend)
    from enginebay.models import read_signature

    signature = read_signature(loaded.module, dict(inputs))
    return TorchReference(loaded.module, signature, reference_text(loaded))


def reference_text(source: ModelSource) -> str:
    """What PyTorch runs for a source, in the words of a verdict."""
    if source.ir is None:
        return "the PyTorch model, unpatched"
    return f"'{source.ir.path.name}' in PyTorch"
