"""``deploy``: the straight line on which a model becomes a verified artifact."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import SAMPLES_FILE, Artifact, ComparatorRecord, build_manifest, staging
from enginebay.comparators import find_comparators
from enginebay.errors import MismatchError
from enginebay.images import read_task
from enginebay.inference import Receipt
from enginebay.ir import IR_FOLDER
from enginebay.models import unchanged
from enginebay.operations.accuracy_gate import accuracy_gate
from enginebay.operations.build_engine import Build, build_engine
from enginebay.operations.int8_layers import Judged
from enginebay.operations.settings import resolve_settings
from enginebay.operations.steps import Step, Steps
from enginebay.rewriting import RewriteReport, check_sets
from enginebay.tensors import save_samples
from enginebay.verdict import PROBES, Verification
from enginebay.verification import ProbeSettings, judge, record_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from enginebay.data import DataRecord, DataSet
    from enginebay.exporters import ExporterName
    from enginebay.images import Task
    from enginebay.ir import IRKind
    from enginebay.operations.build_engine import Engine
    from enginebay.params import BackendParams
    from enginebay.rewriting import RewriterSet

#: Items of a data set that an artifact is verified on and carries along.
_VERIFIED_ITEMS = 64


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`deploy`.

    Attributes:
        artifact: The artifact under its final name.
        verification: The verdict with its figures.
        receipt: What the engine says that it ran; None where it crashed.
        steps: The steps, and how long each took, in seconds.
        notes: For the caller: which exporter or IR was not used and why, what fell
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
    data: Any = None,
    int8_keep: Sequence[str] = (),
    metric: Any = None,
    max_drop: float | None = None,
    task: Task | str | Path | None = None,
    compare: Any = (),
    probes: int = PROBES,
    probes_extreme: bool = False,
    domain: Mapping[str, tuple[float, float]] | None = None,
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
        args: Example inputs: a tensor, a tuple of positional arguments, or a dict by name; by
            default the model's own, else an item of the data.
        work_dir: The folder that the artifact becomes; it must not exist yet.
        backend: The engine; by default the only one installed, else ``onnxruntime``.
        params: The backend's parameters, or its fields by name.
        ir: Use this IR; by default the backend's preferred ones in order, until one works.
        exporter: ``dynamo`` or ``torchscript`` for ONNX; by default the first that works.
        input_names: Instead of the parameter names of ``forward``.
        output_names: Instead of ``output``, ``output_0`` … or the keys of the result.
        dynamic_shapes: ``{"x": {0: "batch"}}`` or ``{"x": {0: ("batch", 1, 8)}}``; by default
            the dimensions where the params' smallest and largest shapes differ. The artifact is
            verified at the example's, the smallest and the largest sizes, and at some in between.
        rewriters: Rewriters of your own.
        partition: Names of marks, or of an ONNX file's tensors, in the order of the model, to cut
            it at: it becomes one artifact with several engines that run one after the other. See
            :func:`enginebay.mark` and :func:`enginebay.marks`.
        config: A deploy config or the path of one: it says what is not given here, and rewriters
            see it as ``ctx.config``.
        data: An :class:`enginebay.DataSet`, or what one is made of: int8 is calibrated with all of
            it, and every artifact is verified on 64 of its items, or all if there are fewer.
        int8_keep: Nodes, operators and beginnings of nodes' names (up to a ``/``) that stay in
            floating point where the precision is int8 or fp8; by the engine's names for them, which
            :func:`enginebay.sensitivity` lists.
        metric: The metric of ``max_drop``, as :func:`enginebay.evaluate` takes it.
        max_drop: Give layers of an int8 or fp8 engine back to floating point, those that cost most
            first, until it is verified and its metric, on all items of ``data``, is at most so much
            worse than PyTorch's.
        task: What the model is for, which the artifact keeps: an :class:`enginebay.Task`, or the
            path of a JSON file with one; by default what comes with the model.
        compare: What compares outputs that are sets: ``{"boxes,scores,labels": "detections"}``, by
            outputs the name of a comparator or a callable; the others are compared place by place.
        probes: How many inputs of other values and sizes to verify the artifact on, at most,
            besides the example; 0 for the example alone. See ``docs/verdict.md``.
        probes_extreme: Verify on large values as well: floats around 1000, at which exponentials
            overflow, and integers beyond 2²⁴, which float32 does not hold.
        domain: ``{"image": (0, 1)}``: bounds of an input's values that the probes stay inside of.
        rtol: Replaces the relative tolerance, which follows the dtype and the precision.
        atol: Replaces the absolute tolerance.
        allow_mismatch: Publish the artifact although its numbers differ or its engine crashed.
        overwrite: Replace the artifact that is there already, once the new one is complete.
        keep_ir: Keep the IR in the artifact's folder ``ir``.
        strict: Refuse what the engine falls back on.
        timeout: Seconds that the child processes of a conversion may take, and again those that
            load and run the engine.
        watch: Called with each step when it starts, when its detail changes and when it ends.
        command: What to type to make the artifact again; kept in its manifest.

    Raises:
        UsageError: An argument is wrong; nothing was written.
        BackendUnavailableError: The backend cannot be used.
        ModelError: The model's forward raised.
        ExportError: No exporter could do it.
        ConversionError: The engine's converter failed.
        ChildTimeoutError: Its processes ran past ``timeout``.
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
        data=data,
    )
    check_sets(rewriters)
    given_task = None if task is None else read_task(task)
    comparators = find_comparators(compare)
    probe_settings = ProbeSettings(probes, dict(domain or {}), large=probes_extreme)
    gate = accuracy_gate(metric, max_drop, settings, timeout)
    if int8_keep:
        settings.engine.check_calibrated(settings.params, "int8_keep keeps layers out of int8")
    held = settings.data_set()
    # Not by truth: that would read a stream to its end, to count it.
    verified_on = None if held is None else held.some(_VERIFIED_ITEMS)
    steps = Steps(watch)
    with staging(work_dir, overwrite=overwrite) as stage, ExitStack() as model_use:
        with steps("reference") as set_detail:
            source = settings.find(model, args)
            model_use.enter_context(unchanged(source))
            bound, fitted_task = settings.bind(source, args, verified_on, given_task or source.task)
            if gate is not None:
                gate.check_model(bound)
            if held is not None:
                held = held.for_task(fitted_task)
                verified_on = held.some(_VERIFIED_ITEMS)
            reference = record_reference(
                bound,
                settings.engine.name,
                precision=settings.precision,
                settings=probe_settings,
                items=() if verified_on is None else verified_on.items(bound.open_inputs),
                comparators=comparators,
            )
            set_detail(reference.description)
        build = Build(
            *(settings, bound, reference, tuple(rewriters), stage.dir, steps, timeout, held),
            keep=tuple(int8_keep),
            unordered=tuple(name for one in comparators for name in one.outputs),
        )
        engine = build_engine(build)

        def judged(engine: Engine) -> Judged:
            verification, receipt = judge(
                engine.load_request(strict=strict),
                stage.dir / SAMPLES_FILE,
                reference.description,
                missing=reference.missing,
                basis=reference.basis.traced(engine.ir.notes),
                rtol=rtol,
                atol=atol,
                comparators=comparators,
                timeout=timeout,
            )
            return Judged(engine, verification, receipt)

        with steps("verify") as set_detail:
            save_samples(stage.dir / SAMPLES_FILE, engine.samples)
            found = judged(engine)
            set_detail(found.verification.verdict)
        if gate is not None:
            with gate.reach(found, judged, steps) as reached:
                found = reached._replace(engine=reached.engine.moved(engine))
        engine, verification, receipt = found
        if not allow_mismatch:
            _raise_on_mismatch(verification)
        with steps("publish") as set_detail:
            manifest = build_manifest(
                *(settings.engine, engine.ir, settings.params, engine.files),
                verification=verification,
                receipt=receipt,
                command=command,
                parts=engine.parts,
                data=_data_record(held, verified_on),
                kept=engine.kept,
                task=fitted_task,
                comparators=tuple(ComparatorRecord(c.outputs, c.name) for c in comparators),
            )
            if not keep_ir:
                shutil.rmtree(stage.dir / IR_FOLDER, ignore_errors=True)
            artifact = stage.publish(manifest)
            set_detail(str(artifact.path))
    verification.warn()
    fallbacks = receipt.fallbacks if receipt else ()
    return Deployment(
        artifact=artifact,
        verification=verification,
        receipt=receipt,
        steps=tuple(steps.done),
        notes=(*settings.notes, *engine.notes, *engine.ir.notes, *fallbacks),
        rewriting=engine.rewriting,
    )


def _data_record(calibrated: DataSet | None, verified: DataSet | None) -> DataRecord | None:
    """What the engine was calibrated with, and else what it was verified on."""
    for data in (calibrated, verified):
        if data is not None and (record := data.record()).count:
            return record
    return None


def _raise_on_mismatch(verification: Verification) -> None:
    if verification.verdict in ("mismatched", "crashed"):
        raise MismatchError(
            verification.summary(),
            verdict=verification,
            hint="look at the model or the params; --allow-mismatch (allow_mismatch=True) "
            "publishes the artifact with this verdict",
        )
