"""``deploy``: build a verified artifact from a model."""

from __future__ import annotations

import shlex
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from enginebay.artifact import ComparatorRecord, staging
from enginebay.display import join_names, short_path
from enginebay.errors import ConversionError, ExportError, NotVerifiedError, UsageError
from enginebay.models import RecordedCalls
from enginebay.operations.build_engine import build_engine
from enginebay.operations.checking import check_device, check_two_artifacts
from enginebay.operations.deployment import Deployment
from enginebay.operations.file_refusals import explain_refusal
from enginebay.operations.preparation import import_torch, prepare_model
from enginebay.operations.read_files import watch_files
from enginebay.operations.recipe import (
    describe_options,
    find_differences,
    find_previous,
    record_recipe,
)
from enginebay.operations.recorded_command import python_call, typed_with
from enginebay.operations.settings import resolve_settings
from enginebay.operations.staged_engine import judge_staged, publish_staged
from enginebay.operations.step_display import show_steps
from enginebay.operations.steps import Steps
from enginebay.operations.work_dir import default_work_dir
from enginebay.reference import HIDDEN_STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from enginebay.config import ExportOptions, VerifyOptions
    from enginebay.operations.steps import Step
    from enginebay.params import BackendParams
    from enginebay.reference import SettledVerdict
    from enginebay.verdict import HalfPrecision


def deploy(
    model: object,
    args: object = None,
    *,
    backend: str | None = None,
    work_dir: str | Path | None = None,
    precision: str | None = None,
    dynamic: Mapping[str, object] | Sequence[str] | None = None,
    data: object = None,
    int8_keep: Sequence[str] = (),
    params: BackendParams | Mapping[str, object] | None = None,
    export: ExportOptions | Mapping[str, object] | None = None,
    verify: VerifyOptions | Mapping[str, object] | None = None,
    config: Mapping[str, object] | str | Path | None = None,
    overwrite: bool = False,
    reuse: bool = False,
    watch: Callable[[Step], None] | bool | None = None,
) -> Deployment:
    """Deploy a model: build its artifact and verify it.

    The unchanged model computes the reference outputs. Then the model is exported with the
    backend's rewriters, and converted. The engine runs in a child process, and its outputs are
    compared with the reference outputs. The artifact appears complete at its path, or not at all.

    Args:
        model: An ``nn.Module``, a function of tensors, or text: ``file.py:attr``,
            ``module:attr``, or a ``.onnx``, ``.pt`` (TorchScript) or ``.pt2`` file.
        args: Example inputs: a tensor, a tuple of positional arguments, or a dict by name; or
            the calls that :func:`enginebay.record` recorded, which then also serve as ``data`` and
            define the dynamic dimensions. By default the example of the model's source, or, if
            the source has none, the first item of ``data``.
        backend: The backend; by default the installed one if there is only one, or ``onnxruntime``.
        work_dir: The folder of the new artifact; it must not exist yet. By default a subfolder of
            the current folder, named after the model and the backend.
        precision: The backend's parameter ``precision``, such as ``fp16`` or ``int8``.
        dynamic: The dynamic dimensions: ``"batch"`` for the first axis of the inputs, or
            ``{"x": {0: "batch"}}``, ``{"x": {0: (1, 8)}}``, or text as on the command line,
            ``["x:0=1:8"]``. By default the dimensions with a ``?`` in ``params.input_shapes``, or
            with different sizes in ``params.min_shapes`` and ``params.max_shapes``. The artifact is
            verified at the example's sizes, the smallest and the largest sizes, and some sizes in
            between; a size without a limit is tried up to ten times the example's size, if that is
            quick.
        data: An :class:`enginebay.DataSet`, or an argument for one, such as a path. All items are
            used to calibrate int8 and fp8, and at most 64 items to verify the artifact.
        int8_keep: Nodes, operators and prefixes of node names (up to a ``/``), as the engine names
            them, that stay in floating point if the precision is int8 or fp8.
        params: The backend's parameters, or a mapping of their names and values.
        export: How to export: the IR, the exporter, your rewriters, the cuts into several engines;
            :class:`enginebay.ExportOptions`, or a mapping of its fields and their values.
        verify: How to compare: probe inputs, tolerances, allowed verdicts;
            :class:`enginebay.VerifyOptions`, or a mapping of its fields and their values.
        config: A deploy config or its path. Settings that no argument specifies are taken from the
            config, and rewriters can read the config as ``ctx.config``.
        overwrite: Replace an existing artifact, once the new artifact is complete.
        reuse: Return the existing artifact of the same model and backend if nothing that it was
            built from has changed: options, local files, weights and layers, versions of the
            engine, torch and plugins. Otherwise replace it; the notes say what has changed. With
            ``overwrite`` it is always replaced.
        watch: A function that is called with each step when it starts, when its detail changes and
            when it ends. True shows the steps in a notebook, on a terminal or as lines on stderr.

    Raises:
        UsageError: An argument is wrong; nothing was written. An unknown or invalid parameter or
            option is a ``ParamsError``, which is a ``UsageError``.
        BackendUnavailableError: The backend cannot be used.
        ModelError: The model's forward raised.
        ExportError: Every exporter failed.
        ConversionError: The engine's converter failed.
        ChildTimeoutError: The converter exceeded ``verify.timeout``.
        NotVerifiedError: The outputs differ, the engine crashed, or there is no evidence that the
            outputs are right. Its attribute ``verdict`` has the details.

    Example:
        >>> import enginebay as eb, tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
        ...     eb.deploy(torch.nn.ReLU(), torch.ones(1, 3), work_dir=f"{folder}/relu").verdict
        'verified'
    """
    command = python_call()
    with watch_files() as opened:
        settings = resolve_settings(
            config,
            backend=backend,
            params=params,
            precision=precision,
            dynamic=dynamic,
            data=data,
            calls=args if isinstance(args, RecordedCalls) else None,
            int8_keep=int8_keep,
            export=export,
            verify=verify,
        )
    check_device(settings.backend, settings.params)
    target = work_dir or default_work_dir(model, settings.backend.name)
    recipe_options = describe_options(settings, model, args)
    notes = settings.notes
    if reuse and not recipe_options:
        raise UsageError(
            "'reuse' compares the options as text, and one of them is a Python object without one",
            hint="pass names, such as 'file.py:attr', or overwrite=True instead of reuse",
        )
    if reuse and not overwrite and (artifact := find_previous(target, recipe_options)):
        differences = find_differences(artifact, settings, recipe_options, model)
        if not differences:
            return Deployment.of(artifact)
        overwrite, notes = True, (*notes, f"built again: {join_names(differences)}")
    with staging(target, overwrite=overwrite) as stage, ExitStack() as model_use:
        shown = model_use.enter_context(show_steps()) if watch is True else watch or None
        steps = Steps(shown)
        import_torch(settings, model, args, steps)
        with steps("reference") as set_detail:
            with watch_files() as opened_by_model:
                prepared = prepare_model(settings, model, args, model_use, stage.dir)
            source, read = prepared.model.source, opened | opened_by_model
            recipe = record_recipe(recipe_options, read, source, stage.target)
            set_detail(prepared.reference.description)
        model_use.enter_context(_name_half_precision(prepared.reference.basis.half_precision))
        model_use.enter_context(_explain_failure(prepared.reference.basis.doubt))
        bound = prepared.model
        model_use.enter_context(
            explain_refusal(bound.source.ir, settings.backend.name, bound.examples)
        )
        built = build_engine(settings, prepared, stage.dir, steps)
        with steps("verify") as set_detail:
            verdict = judge_staged(
                built.engine,
                prepared.reference,
                stage,
                settings.terms,
                strict=settings.verify.strict,
            )
            set_detail(verdict.verification.verdict)
            if verdict.receipt and verdict.verification.passed:
                check_two_artifacts(built.engine, verdict.receipt.engine)
        suspicions = () if verdict.verification.passed else built.engine.suspicions
        _check_verdict(verdict, settings.verify, stage.target, suspicions)
        with steps("publish") as set_detail:
            artifact = publish_staged(
                built.engine,
                verdict,
                stage,
                keep_ir=settings.export.keep_ir,
                command=command,
                recipe=recipe,
                comparators=tuple(
                    ComparatorRecord(c.outputs, c.name) for c in settings.comparators
                ),
                **prepared.record(),
            )
            set_detail(str(artifact.path))
        # After the publication: a filter may turn the warning into an exception.
        verdict.verification.warn()
    return Deployment(
        artifact=artifact,
        verification=verdict.verification,
        receipt=verdict.receipt,
        steps=tuple(steps.done),
        notes=(*notes, *prepared.notes, *built.notes, *suspicions),
        rewriting=built.rewriting,
    )


@contextmanager
def _name_half_precision(found: HalfPrecision | None) -> Iterator[None]:
    """Name the model's operator in half precision if an engine cannot load the model.

    Few engines have all operators in half precision, and their own messages name no line.
    """
    try:
        yield
    except ConversionError as err:
        # An engine that names the dtype lacks an operator of it; only the model knows the line.
        if found and (not err.hint or found.dtype in str(err)):
            text = found.describe()
            err.hint = f"the model computes {text}: compute it in float32 if the engine lacks it"
        raise


@contextmanager
def _explain_failure(doubt: str) -> Iterator[None]:
    """Say what no other export would help against: hidden state, and torch's operators in 8 bits.

    Args:
        doubt: The doubt about the reference.
    """
    try:
        yield
    except (ConversionError, ExportError) as err:
        if "quantized::" in str(err):
            err.hint = "torch's operators in 8 bits are its own: pass the float model, and "
            err.hint += "--precision int8 quantises it for the engine"
        if doubt.startswith(HIDDEN_STATE):
            err.args = (f"{doubt}; nor can the model be built: {err}",)
            err.hint = "take what the model stores as inputs, and return it as outputs"
        raise


def _check_verdict(
    settled: SettledVerdict, options: VerifyOptions, target: Path, suspicions: Sequence[str]
) -> None:
    """Raise NotVerifiedError if the verdict is not ``verified``, and no option allows it."""
    verification, verdict = settled.verification, settled.verification.verdict
    if verdict == "verified" or options.allow_mismatch:
        return
    # An engine for other machines is always unverified until it runs on one of them.
    if verdict == "unverified" and (settled.receipt is None or options.allow_unverified):
        return
    option = "--allow-unverified" if verdict == "unverified" else "--allow-mismatch"
    hint = f"{option} publishes the artifact with this verdict"
    if "ran past its time limit" in verification.reason.partition(";")[0]:
        hint = f"allow more time: --timeout {2 * options.timeout:g}; {hint}"
    elif verdict != "unverified":
        lines = verification.basis.branches if verification.basis else ()
        # A branch is wrong as a whole: no layer of it is the first wrong one.
        first = f"select with torch.where or torch.cond at {', '.join(lines)}" if lines else ""
        hint = f"{first or 'check the model, the rewriters or the params'}; {hint}"
        # An engine that cannot run here cannot be bisected.
        if not lines and verification.simulation is None:
            path = shlex.quote(short_path(target))
            # Nothing was published, so bisect has no artifact before this.
            if again := typed_with(option):
                hint = hint.replace(f"{option} publishes the artifact", "publish the artifact")
                hint += f": {again}"
            hint += f", and then find the layer: enginebay bisect {path}"
    err = NotVerifiedError(verification.explain(suspicions), verdict=verification, hint=hint)
    err.receipt = settled.receipt
    raise err
