"""Engines of parts of a model, built as an artifact's engine was built."""

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
from enginebay.authors import compare_outputs, time_limit
from enginebay_lab.diagnosis.search import Judgement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import nn

    from enginebay import Artifact, BackendParams, Deployment, RewriterSet
    from enginebay.authors import NumpyArray, OutputComparison, Rewriting

#: The exporters as rewriters call them, by what a manifest calls them.
_EXPORTERS = {
    "torch.onnx dynamo": "dynamo",
    "torch.onnx torchscript": "torchscript",
    "torch.jit.trace": "jit.trace",
    "torch.export": "torch.export",
}


class Options(NamedTuple):
    """What every engine of a bisection is built with.

    Attributes:
        rewriters: The caller's own.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        timeout: Seconds that each may take.
    """

    rewriters: Sequence[RewriterSet | str]
    rtol: float | None
    atol: float | None
    timeout: float


class PieceEngines:
    """Builds engines of modules, and compares them with PyTorch or with another engine.

    Args:
        artifact: Says how they are built.
        other: The artifact whose engine replaces PyTorch as the reference; None for PyTorch.
        options: The rest.
        folder: Where they are built.

    Attributes:
        count: How many engines were built.
        backend: The artifact's.
        params: The artifact's, without the shapes of its inputs.
    """

    def __init__(
        self, artifact: Artifact, other: Artifact | None, options: Options, folder: Path
    ) -> None:
        self._artifact = artifact
        self._other = other
        self._options = options
        self._folder = folder
        self.count = 0
        self.backend = get_backend(artifact.backend)
        self.params = _params(artifact)
        self.ir = _ir(artifact)

    def rewriting(self, model: nn.Module) -> AbstractContextManager[Rewriting]:
        """Return the context in which the model is exported for the artifact's engine."""
        return rewrite(
            model,
            backend=self.backend.name,
            ir=self.ir,
            rewriters=self._options.rewriters,
            exporter=_exporter(self._artifact),
        )

    def replaced(self, model: nn.Module) -> set[str]:
        """The paths of the modules that a rewriter replaces in a model."""
        own = dict(model.named_modules())
        with self.rewriting(model) as rewriting:
            there = dict(rewriting.model.named_modules())
            return {path for path, module in own.items() if there.get(path) is not module}

    def judge(
        self,
        module: nn.Module,
        args: Sequence[Any],
        names: Sequence[str],
        comparators: Any = None,
        items: Sequence[Sequence[Any]] = (),
    ) -> Judgement:
        """Build an engine of a module, run it on these arguments, and compare it.

        The files of the engine before it are deleted.

        Args:
            module: The module.
            args: Its arguments.
            names: Names of what it returns.
            comparators: What compares outputs that are sets.
            items: Other flat tensors to compare on as well.

        Raises:
            EnginebayError: It cannot be built.
        """
        for old in self._folder.iterdir():
            shutil.rmtree(old)
        found = self._deployed(self._artifact, module, args, names, comparators, items)
        outputs = {output.name: output for output in found.verification.outputs}
        if self._other is not None and not _crash(found):
            reference = self._deployed(self._other, module, args, names, comparators)
            outputs = self._between(reference, found)
        basis = found.verification.basis
        doubt = basis.doubt if basis else ""
        return Judgement(outputs, _crash(found), _fired(found), found.artifact.path, doubt)

    def judge_file(
        self, path: Path, inputs: Mapping[str, NumpyArray], expected: Mapping[str, NumpyArray]
    ) -> tuple[OutputComparison, ...]:
        """Build an engine of an ONNX file, run it on inputs, and compare its outputs.

        Raises:
            EnginebayError: It cannot be built or run.
        """
        self.count += 1
        with TemporaryDirectory(prefix="enginebay-bisect-") as folder, time_limit(self.timeout):
            artifact = convert(
                *(path,),
                backend=self.backend.name,
                work_dir=Path(folder) / "it",
                params=self.params,
            )
            with load(artifact, isolated=True) as engine:
                return self.compare(expected, engine(inputs), engine.receipt.precision)

    def _deployed(
        self,
        artifact: Artifact,
        module: nn.Module,
        args: Sequence[Any],
        names: Sequence[str],
        comparators: Any,
        items: Sequence[Sequence[Any]] = (),
    ) -> Deployment:
        self.count += 1
        data = [{f"tensors_{i}": tensor for i, tensor in enumerate(item)} for item in items]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VerdictWarning)  # they are about the whole model
            return deploy(
                module,
                tuple(args),
                work_dir=self._folder / f"engine_{self.count}",
                backend=artifact.backend,
                params=_params(artifact),
                data=data or None,
                export=ExportOptions(
                    ir=_ir(artifact),
                    exporter=_exporter(artifact) if _ir(artifact) == "onnx" else None,
                    output_names=tuple(names),
                    rewriters=tuple(self._options.rewriters),
                    keep_ir=True,
                ),
                verify=VerifyOptions(
                    probes=0,
                    compare=comparators,
                    rtol=self._options.rtol,
                    atol=self._options.atol,
                    allow_mismatch=True,
                    timeout=self._options.timeout,
                ),
            )

    def _between(self, reference: Deployment, found: Deployment) -> dict[str, OutputComparison]:
        """Compare the outputs of two engines."""
        if crash := _crash(reference):
            from enginebay.errors import ConversionError

            raise ConversionError(f"the engine to compare with crashed: {crash}")
        expected, measured = (_outputs(one.artifact) for one in (reference, found))
        compared = self.compare(expected, measured, found.verification.precision)
        return {output.name: output for output in compared}

    def compare(
        self, expected: Mapping[str, Any], found: Mapping[str, Any], precision: str
    ) -> tuple[OutputComparison, ...]:
        """Compare outputs within the tolerance of the bisection."""
        options = self._options
        return compare_outputs(
            expected, found, precision=precision, rtol=options.rtol, atol=options.atol
        )

    @property
    def precision(self) -> str:
        """The coarsest precision that the engines may compute in."""
        return self.backend.allowed_precision(self.params)

    @property
    def timeout(self) -> float:
        """Seconds that each engine may take."""
        return self._options.timeout


def _outputs(artifact: Artifact) -> dict[str, NumpyArray]:
    """What an artifact's engine gives for the inputs that it was verified with."""
    (sample,) = artifact.samples()
    with load(artifact, isolated=True) as engine:
        return engine(sample.inputs)


def _params(artifact: Artifact) -> BackendParams:
    """An artifact's parameters without the shapes, which are those of the whole model's inputs."""
    backend = get_backend(artifact.backend)
    given = backend.Params.from_mapping(artifact.manifest.params)
    return given.replace(input_shapes=None, min_shapes=None, max_shapes=None)


def _exporter(artifact: Artifact) -> Any:
    """The exporter that an artifact's IR came from, as rewriters call it."""
    record = artifact.manifest.ir
    return _EXPORTERS.get(record.exporter) if record else None


def _ir(artifact: Artifact) -> Any:
    record = artifact.manifest.ir
    return record.kind if record else "onnx"


def _crash(deployment: Deployment) -> str:
    """How an engine's process ended, where it crashed."""
    verification = deployment.verification
    return verification.reason if verification.verdict == "crashed" else ""


def _fired(deployment: Deployment) -> tuple[str, ...]:
    """Names of the rewriters that fired; the caller's own come first."""
    report = deployment.rewriting
    fired = [each for each in report.applied if each.count] if report else []
    fired.sort(key=lambda each: each.distribution is not None)
    return tuple(dict.fromkeys(each.name for each in fired))
