"""From a prepared model to the artifact: build the engine, judge it, publish it."""

from __future__ import annotations

import shlex
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from enginebay.models import weights_text
from enginebay.operations.build_engine import Build, build_engine
from enginebay.operations.preparation import prepare
from enginebay.operations.steps import Step
from enginebay.rewriting import RewriteReport
from enginebay.tasks import read_task
from enginebay.tensors import save_samples
from enginebay.verdict import Verification
from enginebay.verification import ProbeSettings, judge, without_rounding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.artifact import Staging
    from enginebay.comparators import Comparator
    from enginebay.config import VerifyOptions
    from enginebay.data import DataSet
    from enginebay.display import Block
    from enginebay.models import ModelSource
    from enginebay.operations.build_engine import Engine
    from enginebay.operations.preparation import Prepared
    from enginebay.operations.settings import Settings
    from enginebay.operations.steps import Steps
    from enginebay.tensors import TensorSpec

#: Items of a data set that an artifact is verified on and carries along.
_VERIFIED_ITEMS = 64


class Deployment(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`enginebay.deploy`.

    Attributes:
        artifact: The artifact under its final name.
        verification: The verdict with its figures.
        receipt: What the engine says that it ran; None where it crashed.
        steps: The steps, and how long each took, in seconds.
        notes: For the caller: which exporter or IR was not used and why.
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

    @property
    def is_elsewhere(self) -> bool:
        """True if the engine is built for other machines, so that it did not run here."""
        ran = self.receipt is not None or self.verdict == "crashed"
        return bool(self.artifact.manifest.built_for) and not ran

    def __repr__(self) -> str:
        backend = self.artifact.backend
        return f"<Deployment on {backend}, {self.verdict}, in '{self.artifact.path}'>"

    def blocks(self) -> Iterator[Block]:
        """The steps, the verdict, the artifact, and a row for each output."""
        manifest, receipt = self.artifact.manifest, self.receipt
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
                *(("rewriters", line) for line in _rewriter_lines(self)),
                ("artifact", self.artifact.describe()),
            )
        )
        if outputs := list(self.verification.output_blocks()):
            yield from ("", *outputs)

    def to_dict(self) -> dict[str, Any]:
        """The document that ``enginebay deploy --json`` prints."""
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


class Line:
    """The way of a model to an artifact of one backend.

    Args:
        settings: The backend, its parameters, and how to export.
        int8_keep: Nodes, operators and beginnings of names that stay out of 8 bits.
        command: What to type to make the artifact again.

    Raises:
        UsageError: An option is wrong, or does not fit the settings.
        ParamsError: There is no data, and the precision needs some.
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
            purpose = "strict looks at what the engine falls back on"
            engine.check_runs_here(params, purpose, "leave out --strict")
        if int8_keep:
            engine.check_calibrated(params, "int8_keep keeps layers out of int8")
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
        self._data: DataSet | None = settings.data_set()

    def prepare(self, source: ModelSource, args: Any) -> Prepared:
        """Record the reference.

        Args:
            source: The model.
            args: Example inputs; None for the model's own, else an item of the data.
        """
        return prepare(
            *(self.settings, source, args, self._data),
            items=_VERIFIED_ITEMS,
            probes=self._probes,
            task=self._task,
            comparators=self._comparators,
        )

    def deploy(
        self,
        prepared: Prepared,
        stage: Staging,
        steps: Steps,
    ) -> Deployment:
        """Build the engine, judge it and publish it.

        Args:
            prepared: The model with its reference.
            stage: Where the artifact is built.
            steps: Records the steps.

        Raises:
            NotVerifiedError: The artifact is not verified, and no option allows that.
        """
        verify, model = self.settings.verify, prepared.model
        build = Build(
            *(self.settings, model, prepared.reference, stage.dir),
            *(steps, verify.timeout, prepared.data),
            keep=self._int8_keep,
            unordered=tuple(name for one in self._comparators for name in one.outputs),
        )
        engine = build_engine(build)

        def judged() -> tuple[Verification, Receipt | None]:
            reference = engine.build.reference
            # A simulation runs here alone, and its files hold the path of the IR.
            place = nullcontext(stage.dir) if engine.build.elsewhere else stage.moved()
            with place as folder:
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
            verification, receipt = judged()
            while rest := without_rounding(engine.build.reference, verification, self._comparators):
                engine = engine.compared_on(rest)
                save_samples(stage.dir / SAMPLES_FILE, engine.samples)
                verification, receipt = judged()
            set_detail(verification.verdict)
        _check_verdict(verification, verify, stage.target, ran_here=receipt is not None)
        with steps("publish") as set_detail:
            artifact = self._publish(engine, verification, receipt, prepared, stage)
            set_detail(str(artifact.path))
        verification.warn()
        return Deployment(
            artifact=artifact,
            verification=verification,
            receipt=receipt,
            steps=tuple(steps.done),
            notes=(*self.settings.notes, *prepared.notes, *engine.notes, *engine.ir.notes),
            rewriting=engine.rewriting,
        )

    def _publish(
        self,
        engine: Engine,
        verification: Verification,
        receipt: Receipt | None,
        prepared: Prepared,
        stage: Staging,
    ) -> Artifact:
        settings = self.settings
        manifest = build_manifest(
            *(settings.backend, engine.ir, settings.params, engine.files),
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
        record_modules(stage.dir, engine.ir, settings.backend.name)
        for folder in (stage.dir, *(stage.dir / part.folder for part in engine.parts)):
            shutil.rmtree(folder / SIMULATION_FOLDER, ignore_errors=True)
        if not settings.export.keep_ir:
            shutil.rmtree(stage.dir / IR_FOLDER, ignore_errors=True)
        return stage.publish(manifest)


def _check_verdict(
    verification: Verification, options: VerifyOptions, target: Path, *, ran_here: bool
) -> None:
    """Refuse what is not verified, unless an option allows it or its engine is for elsewhere.

    Raises:
        NotVerifiedError: It may not be published.
    """
    verdict = verification.verdict
    is_free = not ran_here or options.allow_unverified
    if verdict == "verified" or options.allow_mismatch or (verdict == "unverified" and is_free):
        return
    option = "--allow-unverified" if verdict == "unverified" else "--allow-mismatch"
    hint = f"{option} publishes the artifact with this verdict"
    if verdict != "unverified":
        hint = f"look at the model, the rewriters or the params; {hint}"
        if verification.simulation is None:  # else no engine runs here that could be bisected
            here = Path.cwd()
            typed = str(target.relative_to(here) if target.is_relative_to(here) else target)
            hint += f", and then enginebay bisect {shlex.quote(typed)} names the layer"
    raise NotVerifiedError(verification.explain(), verdict=verification, hint=hint)


def _steps_table(steps: Sequence[Step]) -> Table:
    rows = [
        (one.name, f"{one.seconds or 0.0:.2f}", "failed" if one.failed else one.detail)
        for one in steps
    ]
    total = sum(step.seconds or 0.0 for step in steps)
    return Table(("STEP", "SECONDS", ""), [*rows, ("total", f"{total:.2f}", "")], ("SECONDS",))


def sizes_text(inputs: Sequence[TensorSpec]) -> str:
    """Which sizes of the inputs are open; of none, that all are fixed, and how to open one.

    Example:
        >>> from enginebay.tensors import TensorSpec
        >>> sizes_text([TensorSpec("x", "float32", ("batch", 3))])
        'open: x[batch, 3]'
        >>> sizes_text([TensorSpec("x", "float32", (1, 3))])
        'all fixed; --dynamic batch opens the first dimension of the inputs'
    """
    opened = [
        f"{spec.name}[{', '.join(map(str, spec.dims or ()))}]"
        for spec in inputs
        if not spec.is_static
    ]
    if opened:
        return f"open: {join_names(opened)}"
    return "all fixed; --dynamic batch opens the first dimension of the inputs"


def _rewriter_lines(deployment: Deployment) -> Iterator[str]:
    report = deployment.rewriting
    if report is None:
        return
    fired = [f"{each.name} ({each.count})" for each in report.applied if each.count]
    if fired:
        yield f"fired: {join_names(fired)}"
    # Core's and the backend's own rarely fire: most models need few of them. --json has them all.
    own = ("enginebay", deployment.artifact.manifest.plugin.distribution)
    idle = [r.name for r in report.applied if not r.count and r.distribution not in own]
    if idle:
        yield f"never fired: {join_names(idle)}"
    yield from report.not_found
    yield from report.not_served
    yield from (f"lost: {each.loss}" for each in report.lost if each.distribution not in own)
