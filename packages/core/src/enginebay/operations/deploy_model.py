"""The straight line: a model becomes a verified artifact."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import Artifact, Verification, convert_parts, staging
from enginebay.errors import (
    ConversionError,
    EnginebayError,
    ExportError,
    MismatchError,
    UsageError,
    disk_error,
)
from enginebay.exporters import split
from enginebay.inference import Receipt
from enginebay.ir import IR_FOLDER, SUFFIXES
from enginebay.operations.convert_ir import describe, portable
from enginebay.operations.intake import take_in
from enginebay.operations.settings import Settings, resolve_settings
from enginebay.operations.steps import Step, Steps
from enginebay.operations.verify_artifact import SAMPLES_FILE, attempt, judge
from enginebay.rewriting import RewriteReport, check_sets, mark_nodes
from enginebay.tensors import Sample, save_samples
from enginebay.verification import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay.artifact import Part
    from enginebay.backend import Backend
    from enginebay.exporters import ExporterName
    from enginebay.ir import IRKind, IRModel
    from enginebay.operations.intake import Intake
    from enginebay.params import BackendParams
    from enginebay.rewriting import RewriterSet


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """What :func:`deploy` answers.

    Attributes:
        artifact: The artifact under its final name.
        verification: The verdict with its figures.
        receipt: What the engine says that it ran; None where it crashed.
        steps: What was done, and how long each step took, in seconds.
        notes: What the caller should know: which exporter or IR was not used and why, what fell
            back.
        rewriting: Which rewriters fired, how often, and which never did; None where the model
            came as a file that needs no export.
    """

    artifact: Artifact
    verification: Verification
    receipt: Receipt | None
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    rewriting: RewriteReport | None

    @property
    def verdict(self) -> str:
        """``verified``, ``mismatched``, ``unverified`` or ``crashed``."""
        return self.verification.verdict


def deploy(
    model: Any,
    args: Any = None,
    *,
    work_dir: str | Path,
    backend: str | None = None,
    params: BackendParams | Mapping[str, Any] | None = None,
    ir: IRKind | None = None,
    exporter: ExporterName | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Mapping[str, Any] | None = None,
    rewriters: Sequence[RewriterSet] = (),
    partition: Sequence[str] = (),
    config: Mapping[str, Any] | str | Path | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    allow_mismatch: bool = False,
    overwrite: bool = False,
    keep_ir: bool = False,
    strict: bool = False,
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
    command: str = "",
) -> Deployment:
    """Turn a model into a verified artifact.

    The reference outputs come from the model as it is; then it is exported with the rewriters for
    its engine, converted, run by the engine in a child process, and compared. The artifact
    appears under its final name complete, or not at all.

    Args:
        model: An ``nn.Module``, or text: ``file.py:attr``, ``module:attr``, or a ``.onnx``,
            ``.pt`` (TorchScript) or ``.pt2`` file.
        args: Example inputs: a tensor, a tuple of positional arguments, or a dict by name.
        work_dir: The folder that the artifact becomes; it must not exist yet.
        backend: The engine; by default the only one installed, else ``onnxruntime``.
        params: The backend's parameters, or its fields by name.
        ir: Use this IR; by default the backend's preferred ones in order, until one works.
        exporter: ``dynamo`` or ``torchscript`` for ONNX; by default the first that works.
        input_names: Instead of the parameter names of ``forward``.
        output_names: Instead of ``output``, ``output_0`` … or the keys of the result.
        dynamic_shapes: ``{"x": {0: "batch"}}`` or ``{"x": {0: ("batch", 1, 8)}}``; by default
            the dimensions where the params' smallest and largest shapes differ. The artifact is
            verified at the example's, the smallest and the largest sizes.
        rewriters: Rewriters of your own.
        partition: Names of marks, in the order of the model, to cut it at: it becomes one
            artifact with several engines that run one after the other. See
            :func:`enginebay.mark` and :func:`enginebay.marks`.
        config: A deploy config or the path of one: it says what is not given here, and rewriters
            see it as ``ctx.config``.
        rtol: Replaces the relative tolerance, which follows the dtype and the precision.
        atol: Replaces the absolute tolerance.
        allow_mismatch: Publish the artifact although its numbers differ or its engine crashed.
        overwrite: Replace the artifact that is there already, once the new one is complete.
        keep_ir: Keep the IR in the artifact's folder ``ir``.
        strict: Refuse what the engine falls back on.
        timeout: Seconds that loading and running the engine may take.
        watch: Called with each step when it starts, when its detail changes and when it ends.
        command: What to type to make the artifact again; kept in its manifest.

    Raises:
        UsageError: An argument is wrong; nothing was written.
        BackendUnavailableError: The backend cannot be used.
        ModelError: The model's forward raised.
        ExportError: No exporter could do it.
        ConversionError: The engine's converter failed.
        MismatchError: The numbers differ, or the engine crashed; carries ``.verdict``.

    Example:
        >>> import enginebay as eb, tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
        ...     eb.deploy(torch.nn.ReLU(), torch.ones(1, 3), work_dir=f"{folder}/relu").verdict
        'verified'
    """
    settings = resolve_settings(
        config,
        backend=backend,
        params=params,
        ir=ir,
        exporter=exporter,
        input_names=input_names,
        output_names=output_names,
        dynamic_shapes=dynamic_shapes,
        partition=partition,
    )
    engine: Backend = settings.engine
    given = settings.params
    kinds = _kinds(engine, settings.ir, settings.partition)
    check_sets(rewriters, SUFFIXES)
    steps = Steps(watch)
    with staging(work_dir, overwrite=overwrite) as stage:
        with steps("reference") as tell:
            intake = take_in(
                model,
                args,
                backend=engine.name,
                params=given,
                input_names=settings.input_names,
                output_names=settings.output_names,
                dynamic_shapes=settings.dynamic_shapes,
                codebase_config=settings.codebase_config,
            )
            tell(intake.description)
        build = _Build(settings, intake, stage.dir, rewriters, steps)
        exported, files, parts, notes = build.first_that_works(kinds)
        with steps("verify") as tell:
            verification, receipt = _verify(
                engine,
                given,
                intake,
                exported,
                files,
                parts,
                stage.dir,
                rtol=rtol,
                atol=atol,
                strict=strict,
                timeout=timeout,
            )
            tell(verification.verdict)
        if not allow_mismatch:
            _insist(verification)
        with steps("publish") as tell:
            manifest = describe(
                engine,
                exported,
                given,
                files,
                verification=verification,
                receipt=receipt,
                command=command,
                parts=parts,
            )
            if not keep_ir:
                shutil.rmtree(stage.dir / IR_FOLDER, ignore_errors=True)
            artifact = stage.publish(manifest)
            tell(str(artifact.path))
    fallbacks = receipt.fallbacks if receipt else ()
    return Deployment(
        artifact=artifact,
        verification=verification,
        receipt=receipt,
        steps=tuple(steps.done),
        notes=(*settings.notes, *notes, *exported.notes, *fallbacks),
        rewriting=intake.rewriting,
    )


def _kinds(engine: Backend, ir: IRKind | None, partition: Sequence[str]) -> tuple[IRKind, ...]:
    """The IRs to try, in order; only an ONNX graph can be cut."""
    kinds: tuple[IRKind, ...] = (ir,) if ir else engine.info.irs
    if not partition:
        return kinds
    if isinstance(partition, str):
        raise UsageError(
            f"partition is the text '{partition}', wanted a sequence of names",
            hint=f"partition=('{partition}',)",
        )
    if "onnx" not in kinds:
        raise UsageError(
            f"only an ONNX graph can be cut, and this deployment goes through {', '.join(kinds)}",
            hint="leave out the cuts, or choose ir='onnx' and a backend that takes it",
        )
    return ("onnx",)


class _Build:
    """Export and convert, for the first IR that goes through both."""

    def __init__(
        self,
        settings: Settings,
        intake: Intake,
        folder: Path,
        rewriters: Sequence[RewriterSet],
        steps: Steps,
    ) -> None:
        self._settings = settings
        self._engine: Backend = settings.engine
        self._params = settings.params
        self._intake = intake
        self._folder = folder
        self._cuts = settings.partition
        self._rewriters = [*rewriters, mark_nodes()] if self._cuts else rewriters
        self._steps = steps

    def first_that_works(
        self, kinds: Sequence[IRKind]
    ) -> tuple[IRModel, tuple[Path, ...], tuple[Part, ...], tuple[str, ...]]:
        """The IR, the engine's files relative to the folder, and why earlier IRs were not used."""
        failures: list[EnginebayError] = []
        for kind in kinds:
            try:
                exported, files, parts = self._through(kind)
            except (ExportError, ConversionError) as err:
                if full := disk_error(err):
                    raise full from err  # no other IR would help; staging says which disk
                failures.append(err)
                _empty(self._folder)
            else:
                notes = tuple(
                    f"{failed} was not used: {err}"
                    for failed, err in zip(kinds, failures, strict=False)
                )
                return exported, files, parts, notes
        if len(failures) == 1:
            raise failures[0]
        told = "; ".join(f"{kind}: {err}" for kind, err in zip(kinds, failures, strict=True))
        raise ConversionError(f"no IR leads to backend '{self._engine.name}': {told}") from (
            ExceptionGroup("every IR failed", failures)
        )

    def _through(self, kind: IRKind) -> tuple[IRModel, tuple[Path, ...], tuple[Part, ...]]:
        with self._steps("export") as tell:
            exported = self._intake.export(
                kind,
                self._folder / IR_FOLDER / f"model{SUFFIXES[kind]}",
                exporter=self._settings.exporter,
                opset=self._settings.opset,
                backend=self._engine.name,
                rewriters=self._rewriters,
                config=self._settings.values,
            )
            tell(f"{exported.kind} by {exported.exporter}")
        with self._steps("convert") as tell:
            parts = self._convert_parts(exported, tell) if self._cuts else ()
            files = tuple(Path(path) for part in parts for path in part.paths)
            files = files or self._engine.convert(
                exported,
                self._params,
                self._folder,
                tell,
                self._intake.shapes,
                [sample.inputs for sample in _samples(self._intake, exported)],
            )
            tell(", ".join(file.as_posix() for file in files))
        return exported, files, parts

    def _convert_parts(self, exported: IRModel, tell: Callable[[str], None]) -> tuple[Part, ...]:
        try:
            models = split(exported, self._cuts, self._folder / IR_FOLDER / "parts")
        except UsageError as err:
            # A function that was to be marked and is not there has no mark to cut at.
            lines = self._intake.rewriting.not_found if self._intake.rewriting else ()
            raise UsageError("; ".join((str(err), *lines)), hint=err.hint) from err
        return convert_parts(self._engine, models, self._params, self._folder, tell)


def _verify(
    engine: Backend,
    params: BackendParams,
    intake: Intake,
    exported: IRModel,
    files: tuple[Path, ...],
    parts: tuple[Part, ...],
    folder: Path,
    **options: Any,
) -> tuple[Verification, Receipt | None]:
    samples = _samples(intake, exported)
    save_samples(folder / SAMPLES_FILE, samples)
    trial = Trial(
        backend=engine.name,
        directory=folder,
        files=files,
        params=portable(params),
        inputs=exported.inputs,
        outputs=exported.outputs,
        samples=folder / SAMPLES_FILE,
        strict=options.pop("strict"),
        parts=parts,
    )
    if intake.why_no_reference:
        return attempt(trial, intake.why_no_reference, timeout=options["timeout"])
    return judge(trial, samples, intake.description, **options)


def _samples(intake: Intake, exported: IRModel) -> list[Sample]:
    """The samples without the inputs that an exporter has dropped, as no node uses them."""
    return [
        Sample({spec.name: sample.inputs[spec.name] for spec in exported.inputs}, sample.outputs)
        for sample in intake.samples
    ]


def _insist(verification: Verification) -> None:
    if verification.verdict in ("mismatched", "crashed"):
        raise MismatchError(
            verification.summary(),
            verdict=verification,
            hint="look at the model or the params; --allow-mismatch (allow_mismatch=True) "
            "publishes the artifact with this verdict",
        )


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
