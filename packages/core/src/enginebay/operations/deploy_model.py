"""``deploy``: the straight line on which a model becomes a verified artifact."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from enginebay.artifact import staging
from enginebay.models import unchanged
from enginebay.operations.deployment import Deployment, DeployOptions, Line
from enginebay.operations.python_call import python_call
from enginebay.operations.settings import resolve_settings
from enginebay.operations.shown_steps import show_steps
from enginebay.operations.steps import Steps
from enginebay.verdict import PROBES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from enginebay.exporters import ExporterName
    from enginebay.images import Task
    from enginebay.ir import IRKind
    from enginebay.operations.steps import Step
    from enginebay.params import BackendParams
    from enginebay.rewriting import RewriterSet


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
    progress: bool = False,
    command: str = "",
) -> Deployment:
    """Turn a model into a verified artifact.

    The reference outputs come from the model as it is; then it is exported with the rewriters for
    its engine, converted, run by the engine in a child process, and compared. The artifact
    appears under its final name complete, or not at all.

    Args:
        model: An ``nn.Module``, a function of tensors, or text: ``file.py:attr``,
            ``module:attr``, or a ``.onnx``, ``.pt`` (TorchScript) or ``.pt2`` file.
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
            floating point where the precision is int8 or fp8; by the engine's names for them.
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
        progress: Show the steps as they happen, in a notebook, on a terminal or as lines on stderr;
            instead of ``watch``.
        command: What to type to make the artifact again, which its manifest keeps; by default the
            Python call.

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
    options = DeployOptions(
        rewriters=rewriters,
        int8_keep=int8_keep,
        task=task,
        compare=compare,
        probes=probes,
        probes_extreme=probes_extreme,
        domain=domain,
        rtol=rtol,
        atol=atol,
        allow_mismatch=allow_mismatch,
        keep_ir=keep_ir,
        strict=strict,
        timeout=timeout,
        command=command or python_call(),
    )
    line = Line(settings, options)
    with staging(work_dir, overwrite=overwrite) as stage, ExitStack() as model_use:
        steps = Steps(model_use.enter_context(show_steps()) if progress else watch)
        with steps("reference") as set_detail:
            source = settings.find(model, args)
            model_use.enter_context(unchanged(source))
            prepared = line.prepare(source, args)
            set_detail(prepared.reference.description)
        return line.deploy(prepared, stage, steps)
