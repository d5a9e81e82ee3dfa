"""Engines of a model's modules or nodes, built with the settings of an artifact."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay import (
    ExportOptions,
    VerdictWarning,
    VerifyOptions,
    convert,
    deploy,
    get_backend,
    load,
    rewrite,
)
from enginebay.authors import isolation
from enginebay.authors.arrays import compare_outputs
from enginebay_lab.diagnosis.module_search import EngineComparison

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from enginebay import Artifact, BackendParams, Deployment, RewriterSet
    from enginebay.authors import Rewriting
    from enginebay.authors.arrays import Array, NumpyArray, OutputComparison

#: The names of exporters in :class:`enginebay.ExportOptions`, by their names in manifests.
_EXPORTERS = {
    "torch.onnx dynamo": "dynamo",
    "torch.onnx torchscript": "torchscript",
    "torch.jit.trace": "jit.trace",
    "torch.export": "torch.export",
}


class BuildOptions(NamedTuple):
    """The caller's options for building and comparing all engines.

    Attributes:
        rewriters: Rewriters in addition to the built-in ones.
        rtol: Relative tolerance; None for the default of the engine's precision.
        atol: Absolute tolerance; None for the default of the engine's precision.
        timeout: Time limit in seconds for each engine.
    """

    rewriters: Sequence[RewriterSet | str]
    rtol: float | None
    atol: float | None
    timeout: float


class PieceEngines:
    """Builds engines of modules, and compares the outputs with PyTorch or with another engine.

    Args:
        artifact: The artifact whose settings the engines are built with.
        other: The artifact whose settings the reference engines are built with; None to compare
            with PyTorch.
        options: The caller's options.
        folder: A folder for the engines' files.

    Attributes:
        count: The number of engines that were built.
        backend: The artifact's backend.
        params: The artifact's backend parameters, without input shapes.
        ir: The kind of the artifact's IR, such as ``onnx``.
    """

    def __init__(
        self, artifact: Artifact, other: Artifact | None, options: BuildOptions, folder: Path
    ) -> None:
        self._artifact = artifact
        self._other = other
        self._options = options
        self._folder = folder
        self.count = 0
        self.backend = get_backend(artifact.backend)
        self.params = _params_without_shapes(artifact)
        self.ir = _ir_kind(artifact)

    def rewriting(self, model: nn.Module) -> AbstractContextManager[Rewriting]:
        """Return a context manager that rewrites a model as for the artifact's export."""
        return rewrite(
            model,
            backend=self.backend.name,
            ir=self.ir,
            rewriters=self._options.rewriters,
            exporter=_exporter_name(self._artifact),
        )

    def find_replaced(self, model: nn.Module) -> set[str]:
        """Return the paths of a model's modules that rewriters replace with other modules."""
        original = dict(model.named_modules())
        with self.rewriting(model) as rewriting:
            rewritten = dict(rewriting.model.named_modules())
            return {path for path, module in original.items() if rewritten.get(path) is not module}

    def compare_module(
        self,
        module: nn.Module,
        args: Sequence[object],
        names: Sequence[str],
        comparators: Mapping[str, str] | None = None,
        items: Sequence[Sequence[Tensor]] = (),
    ) -> EngineComparison:
        """Build an engine of a module, run it, and compare its outputs with the reference.

        The files of the previous engine are deleted.

        Args:
            module: The module of which the engine is built.
            args: The module's arguments.
            names: The names of the module's outputs.
            comparators: The name of the comparator for each group of outputs; a key is the names of
                the outputs, joined by commas. None to compare all outputs by tolerances.
            items: Further lists of input tensors; the outputs are compared on each list too.

        Raises:
            EnginebayError: The engine cannot be built.
        """
        for old in self._folder.iterdir():  # hundreds of engines of a large model can fill a disk
            shutil.rmtree(old)
        deployment = self._deploy_module(self._artifact, module, args, names, comparators, items)
        outputs = {output.name: output for output in deployment.verification.outputs}
        crash = _describe_crash(deployment)
        if self._other is not None and not crash:  # a crashed engine has no outputs
            reference = self._deploy_module(self._other, module, args, names, comparators)
            outputs = self._compare_engines(reference, deployment)
        basis = deployment.verification.basis
        doubt = basis.doubt if basis else ""
        return EngineComparison(
            outputs, crash, _fired_rewriters(deployment), deployment.artifact.path, doubt
        )

    def compare_file(
        self, path: Path, inputs: Mapping[str, NumpyArray], expected: Mapping[str, NumpyArray]
    ) -> tuple[OutputComparison, ...]:
        """Build an engine of an ONNX file, run it, and compare its outputs with expected values.

        Raises:
            EnginebayError: The engine cannot be built or run.
        """
        self.count += 1
        with (
            TemporaryDirectory(prefix="enginebay-bisect-") as folder,
            isolation.time_limit(self.timeout),
        ):
            work_dir = Path(folder) / "engine"
            artifact = convert(
                path, backend=self.backend.name, work_dir=work_dir, params=self.params
            )
            # Isolated, because a part of a graph may crash an engine that runs the whole.
            with load(artifact, isolated=True) as engine:
                return self.compare_values(expected, engine(inputs), engine.receipt.precision)

    def _deploy_module(
        self,
        artifact: Artifact,
        module: nn.Module,
        args: Sequence[object],
        names: Sequence[str],
        comparators: Mapping[str, str] | None,
        items: Sequence[Sequence[Tensor]] = (),
    ) -> Deployment:
        self.count += 1
        data = [{f"tensors_{i}": tensor for i, tensor in enumerate(item)} for item in items]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VerdictWarning)  # the search expects mismatches
            return deploy(
                module,
                tuple(args),
                work_dir=self._folder / f"engine_{self.count}",
                backend=artifact.backend,
                params=_params_without_shapes(artifact),
                data=data or None,
                export=ExportOptions(
                    ir=_ir_kind(artifact),
                    # deploy() refuses the name of an exporter for any other IR.
                    exporter=_exporter_name(artifact) if _ir_kind(artifact) == "onnx" else None,
                    output_names=tuple(names),
                    rewriters=tuple(self._options.rewriters),
                    keep_ir=True,  # the nodes of a wrong module are searched in it
                ),
                verify=VerifyOptions(
                    probes=0,  # a module is compared on tensors that its model passes to it
                    compare=comparators,
                    rtol=self._options.rtol,
                    atol=self._options.atol,
                    allow_mismatch=True,  # a mismatch is a result of the search, not an error
                    timeout=self._options.timeout,
                ),
            )

    def _compare_engines(
        self, reference: Deployment, deployment: Deployment
    ) -> dict[str, OutputComparison]:
        if crash := _describe_crash(reference):
            from enginebay.errors import ConversionError

            raise ConversionError(f"the reference engine crashed: {crash}")
        expected, outputs = _run_engine(reference.artifact), _run_engine(deployment.artifact)
        compared = self.compare_values(expected, outputs, deployment.verification.precision)
        return {output.name: output for output in compared}

    def compare_values(
        self, expected: Mapping[str, Array], outputs: Mapping[str, Array], precision: str
    ) -> tuple[OutputComparison, ...]:
        """Compare outputs with the expected values of the same names, within the tolerances."""
        options = self._options
        return compare_outputs(
            expected, outputs, precision=precision, rtol=options.rtol, atol=options.atol
        )

    @property
    def precision(self) -> str:
        """The lowest precision that the engines may compute in, such as ``fp16``."""
        return self.backend.allowed_precision(self.params)

    @property
    def timeout(self) -> float:
        """The time limit in seconds for each engine."""
        return self._options.timeout


def _run_engine(artifact: Artifact) -> dict[str, NumpyArray]:
    """Run an artifact's engine on the inputs of its only sample, and return the outputs."""
    (sample,) = artifact.samples()  # only the example, because verification used no probes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VerdictWarning)  # the search expects mismatches
        engine = load(artifact, isolated=True)
    with engine:
        return engine(sample.inputs)


def _params_without_shapes(artifact: Artifact) -> BackendParams:
    # The shapes in the parameters are for the model's inputs, not for those of a module or node.
    backend = get_backend(artifact.backend)
    params = backend.Params.from_mapping(artifact.manifest.params)
    return params.replace(input_shapes=None, min_shapes=None, max_shapes=None)


def _exporter_name(artifact: Artifact) -> Any:
    record = artifact.manifest.ir
    return _EXPORTERS.get(record.exporter) if record else None


def _ir_kind(artifact: Artifact) -> Any:
    record = artifact.manifest.ir
    return record.kind if record else "onnx"


def _describe_crash(deployment: Deployment) -> str:
    """Return how an engine's process crashed; an empty string if it did not crash."""
    verification = deployment.verification
    return verification.reason if verification.verdict == "crashed" else ""


def _fired_rewriters(deployment: Deployment) -> tuple[str, ...]:
    """Return the names of the rewriters that changed the module, the caller's rewriters first."""
    report = deployment.rewriting
    fired = [rewriter for rewriter in report.applied if rewriter.count] if report else []
    fired.sort(key=lambda rewriter: rewriter.distribution is not None)  # None: the caller's own
    return tuple(dict.fromkeys(rewriter.name for rewriter in fired))
