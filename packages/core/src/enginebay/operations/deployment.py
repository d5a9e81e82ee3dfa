"""Deployment of a prepared model: build the engine, verify it, publish the artifact."""

from __future__ import annotations

import shlex
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact import (
    SAMPLES_FILE,
    SIMULATION_FOLDER,
    Artifact,
    ComparatorRecord,
    build_manifest,
    record_modules,
)
from enginebay.comparators import find_comparators
from enginebay.display import Fields, Result, Table, document, join_names
from enginebay.errors import NotVerifiedError
from enginebay.inference import Receipt
from enginebay.ir import IR_FOLDER
from enginebay.operations.build_engine import Build, build_engine
from enginebay.operations.preparation import prepare_model
from enginebay.operations.steps import Step
from enginebay.reference import ProbeSettings, drop_undecided_probes
from enginebay.rewriting import RewriteReport
from enginebay.sources import weights_text
from enginebay.tasks import read_task
from enginebay.tensors import save_samples
from enginebay.verdict import Verification
from enginebay.verification import judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.artifact import StagingDirectory
    from enginebay.comparators import Comparator
    from enginebay.config import VerifyOptions
    from enginebay.data import DataSet
    from enginebay.display import Block
    from enginebay.operations.build_engine import BuiltEngine
    from enginebay.operations.preparation import PreparedModel
    from enginebay.operations.settings import Settings
    from enginebay.operations.steps import Steps
    from enginebay.sources import ModelSource
    from enginebay.tensors import TensorSpec

#: The maximum number of a data set's items that an artifact is verified on and stores.
_MAX_VERIFIED_ITEMS = 64


class Deployment(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`enginebay.deploy`.

    Attributes:
        artifact: The published artifact.
        verification: The verdict, with the error metrics of each output.
        receipt: The engine's effective settings; None if the engine crashed or cannot run on this
            machine.
        steps: The steps with their durations in seconds.
        notes: Notes such as the reasons why an exporter or IR was not used.
        rewriting: The report of the rewriters; None for a model file that needs no export.
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

    @property
    def is_elsewhere(self) -> bool:
        """True if the engine is built for other machines, and did not run on this machine."""
        ran = self.receipt is not None or self.verdict == "crashed"
        return bool(self.artifact.manifest.built_for) and not ran

    def __repr__(self) -> str:
        backend = self.artifact.backend
        return f"<Deployment on {backend}, {self.verdict}, in '{self.artifact.path}'>"

    def blocks(self) -> Iterator[Block]:
        """Yield the text and tables to print: steps, verdict, artifact, and a row per output."""
        manifest, receipt = self.artifact.manifest, self.receipt
        report = self.rewriting or RewriteReport()
        rewriting = report.summarize(manifest.plugin.distribution)
        yield _steps_table(self.steps)
        yield ""
        yield Fields(
            (
                ("verdict", self.verification.headline()),
                *self.verification.fields(),
                ("sizes", sizes_text(manifest.inputs)),
                ("weights", weights_text(manifest.weights)),
                ("engine", "" if receipt is None else receipt.describe()),
                *(("note", note) for note in self.notes),
                ("kept", join_names(manifest.kept)),
                *(("rewriters", line) for line in rewriting),
                ("artifact", self.artifact.describe()),
            )
        )
        if outputs := list(self.verification.output_blocks()):
            yield from ("", *outputs)

    def to_dict(self) -> dict[str, object]:
        """Return the document that ``enginebay deploy --json`` prints."""
        report = self.rewriting
        rewriting = report and {
            "fired": report.fired,
            "never_fired": report.never_fired,
            "not_found": report.not_found,
            "not_served": report.not_served,
            "lost": report.lost,
        }
        return document(
            {
                "kind": "deployment",
                "verdict": self.verdict,
                "artifact": str(self.artifact.path),
                "notes": self.notes,
                "steps": self.steps,
                "rewriting": rewriting,
                "manifest": self.artifact.manifest,
            }
        )


class Deployer:
    """Deploys one model to one backend.

    Args:
        settings: The backend, its parameters, and the options of export and verification.
        int8_keep: Nodes, operators and prefixes of node names that stay in floating point.
        command: The command line or Python call of this deployment, for the artifact's manifest.

    Raises:
        UsageError: An option is invalid, or cannot be combined with the settings.
        ParamsError: The precision requires calibration data.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        int8_keep: Sequence[str] = (),
        command: str = "",
    ) -> None:
        export, verify = settings.export, settings.verify
        engine, params = settings.backend, settings.params
        if verify.strict:
            purpose = "'strict' checks the fallbacks of the engine"
            engine.check_runs_here(params, purpose, "leave out --strict")
        if int8_keep:
            engine.check_calibrated(params, "'int8_keep' excludes layers from int8")
        self.settings = settings
        self._int8_keep = tuple(int8_keep)
        self._command = command
        self._task = None if export.task is None else read_task(export.task)
        self._comparators: tuple[Comparator, ...] = find_comparators(verify.compare or {})
        self._probes = ProbeSettings(
            verify.probes,
            dict(verify.domain),
            large=verify.probes_extreme,
            calibrated=engine.calibrated_precision(params),
        )
        # Opened here, so that wrong data fails before the model is imported.
        self._data: DataSet | None = settings.open_data()

    def prepare_model(self, source: ModelSource, args: object) -> PreparedModel:
        """Return the model, bound to example inputs, with its recorded reference outputs.

        Args:
            source: The loaded model, with its origin and example inputs.
            args: Example inputs; None for the example of the model source or, if the source has
                no example, for the first item of the data.
        """
        return prepare_model(
            self.settings,
            source,
            args,
            self._data,
            items=_MAX_VERIFIED_ITEMS,
            probes=self._probes,
            task=self._task,
            comparators=self._comparators,
        )

    def deploy_prepared(
        self,
        prepared: PreparedModel,
        stage: StagingDirectory,
        steps: Steps,
    ) -> Deployment:
        """Build the engine, verify its outputs, publish the artifact, and return the result.

        Args:
            prepared: The model with its reference outputs.
            stage: The directory that the artifact is built in.
            steps: The recorder of the deployment's steps.

        Raises:
            NotVerifiedError: The verdict is not ``verified``, and no option allows this verdict.
        """
        verify, model = self.settings.verify, prepared.model
        build = Build(
            self.settings,
            model,
            prepared.reference,
            stage.dir,
            steps,
            verify.timeout,
            prepared.data,
            keep=self._int8_keep,
            unordered=tuple(
                name for comparator in self._comparators for name in comparator.outputs
            ),
        )
        engine = build_engine(build)

        def judge_engine() -> tuple[Verification, Receipt | None]:
            reference = engine.build.reference
            # A simulation is never moved, and its files contain the path of the IR.
            location = nullcontext(stage.dir) if engine.build.built_for else stage.move_away()
            with location as folder:
                return judge(
                    engine.load_request(folder, strict=verify.strict),
                    folder / SAMPLES_FILE,
                    reference.description,
                    missing=reference.missing,
                    basis=reference.basis.drop_untraced_lines(engine.ir.notes),
                    rtol=verify.rtol,
                    atol=verify.atol,
                    comparators=self._comparators,
                    timeout=verify.timeout,
                )

        with steps("verify") as set_detail:
            save_samples(stage.dir / SAMPLES_FILE, engine.samples)
            verification, receipt = judge_engine()
            # A probe on which rounding alone decides must not excuse an error on another one:
            # compare again.
            while rest := drop_undecided_probes(
                engine.build.reference, verification, self._comparators
            ):
                engine = engine.with_reference(rest)
                save_samples(stage.dir / SAMPLES_FILE, engine.samples)
                verification, receipt = judge_engine()
            set_detail(verification.verdict)
        _check_verdict(verification, verify, stage.target, ran_here=receipt is not None)
        with steps("publish") as set_detail:
            artifact = self._publish_artifact(engine, verification, receipt, prepared, stage)
            set_detail(str(artifact.path))
        # After the publication: a filter may turn the warning into an exception.
        verification.warn()
        return Deployment(
            artifact=artifact,
            verification=verification,
            receipt=receipt,
            steps=tuple(steps.done),
            notes=(*self.settings.notes, *prepared.notes, *engine.notes, *engine.ir.notes),
            rewriting=engine.rewriting,
        )

    def _publish_artifact(
        self,
        engine: BuiltEngine,
        verification: Verification,
        receipt: Receipt | None,
        prepared: PreparedModel,
        stage: StagingDirectory,
    ) -> Artifact:
        settings = self.settings
        manifest = build_manifest(
            settings.backend,
            engine.ir,
            settings.params,
            engine.files,
            verification=verification,
            receipt=receipt,
            model=prepared.model.source.named,
            weights=prepared.model.source.weights,
            command=self._command,
            parts=engine.parts,
            data=prepared.data_record(),
            kept=engine.kept,
            task=prepared.task,
            comparators=tuple(ComparatorRecord(c.outputs, c.name) for c in self._comparators),
        )
        # Before the IR is deleted, which is the only file that knows the modules.
        record_modules(stage.dir, engine.ir, settings.backend.name)
        for folder in (stage.dir, *(stage.dir / part.folder for part in engine.parts)):
            # The graph of an engine that cannot run here serves only its verification.
            shutil.rmtree(folder / SIMULATION_FOLDER, ignore_errors=True)
        # ignore_errors: a model file that needs no export has no such folder.
        if not settings.export.keep_ir:
            shutil.rmtree(stage.dir / IR_FOLDER, ignore_errors=True)
        return stage.publish(manifest)


def _check_verdict(
    verification: Verification, options: VerifyOptions, target: Path, *, ran_here: bool
) -> None:
    verdict = verification.verdict
    # An engine for other machines is always unverified until it runs on one of them.
    allows_unverified = not ran_here or options.allow_unverified
    if verdict == "verified" or options.allow_mismatch:
        return
    if verdict == "unverified" and allows_unverified:
        return
    option = "--allow-unverified" if verdict == "unverified" else "--allow-mismatch"
    hint = f"{option} publishes the artifact with this verdict"
    if verdict != "unverified":
        hint = f"check the model, the rewriters or the params; {hint}"
        if verification.simulation is None:  # an engine that cannot run here cannot be bisected
            here = Path.cwd()
            path = str(target.relative_to(here) if target.is_relative_to(here) else target)
            hint += f", and then enginebay bisect {shlex.quote(path)} names the layer"
    raise NotVerifiedError(verification.explain(), verdict=verification, hint=hint)


def _steps_table(steps: Sequence[Step]) -> Table:
    rows = [
        (step.name, f"{step.seconds or 0.0:.2f}", "failed" if step.failed else step.detail)
        for step in steps
    ]
    total = sum(step.seconds or 0.0 for step in steps)
    return Table(("STEP", "SECONDS", ""), [*rows, ("total", f"{total:.2f}", "")], ("SECONDS",))


def sizes_text(inputs: Sequence[TensorSpec]) -> str:
    """Return a text about the inputs' dynamic dimensions, or about how to make one dynamic.

    Example:
        >>> from enginebay.tensors import TensorSpec
        >>> sizes_text([TensorSpec("x", "float32", ("batch", 3))])
        'dynamic: x[batch, 3]'
        >>> sizes_text([TensorSpec("x", "float32", (1, 3))])
        'all fixed; for a dynamic batch: --dynamic batch'
    """
    dynamic = [
        f"{spec.name}[{', '.join(map(str, spec.dims or ()))}]"
        for spec in inputs
        if not spec.is_static
    ]
    if dynamic:
        return f"dynamic: {join_names(dynamic)}"
    return "all fixed; for a dynamic batch: --dynamic batch"
