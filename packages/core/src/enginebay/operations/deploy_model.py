"""``deploy``: the straight line on which a model becomes a verified artifact."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import staging
from enginebay.models import RecordedCalls, unchanged
from enginebay.operations.deployment import Deployment, Line
from enginebay.operations.recorded_command import python_call
from enginebay.operations.settings import resolve_settings
from enginebay.operations.shown_steps import show_steps
from enginebay.operations.steps import Steps
from enginebay.operations.work_dir import default_work_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from enginebay.config import ExportOptions, VerifyOptions
    from enginebay.operations.steps import Step
    from enginebay.params import BackendParams


def deploy(
    model: Any,
    args: Any = None,
    *,
    backend: str | None = None,
    work_dir: str | Path | None = None,
    precision: str | None = None,
    dynamic: Mapping[str, Any] | Sequence[str] | None = None,
    data: Any = None,
    int8_keep: Sequence[str] = (),
    params: BackendParams | Mapping[str, Any] | None = None,
    export: ExportOptions | None = None,
    verify: VerifyOptions | None = None,
    config: Mapping[str, Any] | str | Path | None = None,
    overwrite: bool = False,
    watch: Callable[[Step], None] | bool | None = None,
) -> Deployment:
    """Turn a model into a verified artifact.

    The reference outputs come from the model as it is; then it is exported with the rewriters for
    its engine, converted, run by the engine in a child process, and compared. The artifact
    appears under its final name complete, or not at all.

    Args:
        model: An ``nn.Module``, a function of tensors, or text: ``file.py:attr``,
            ``module:attr``, or a ``.onnx``, ``.pt`` (TorchScript) or ``.pt2`` file.
        args: Example inputs: a tensor, a tuple of positional arguments, or a dict by name; or
            the calls that :func:`enginebay.record` has seen, which say what is open and are the
            data as well; by default the model's own, else an item of the data.
        backend: The engine; by default the only one installed, else ``onnxruntime``.
        work_dir: The folder that the artifact becomes; it must not exist yet. By default a folder
            in the current one with the names of the model and the backend.
        precision: The backend's parameter ``precision``, such as ``fp16`` or ``int8``.
        dynamic: The open dimensions: ``"batch"`` for the first axis of the inputs, or
            ``{"x": {0: "batch"}}``, ``{"x": {0: (1, 8)}}``, or text as on the command line,
            ``["x:0=1:8"]``; by default those that have a ``?`` in the params' ``input_shapes``, or
            where their smallest and largest shapes differ. The artifact is
            verified at the example's, the smallest and the largest sizes, and at some in between;
            a size without a largest one is tried up to ten times the example's, if that is quick.
        data: An :class:`enginebay.DataSet`, or what one is made of: int8 is calibrated with all of
            it, and every artifact is verified on 64 of its items, or all if there are fewer.
        int8_keep: Nodes, operators and beginnings of nodes' names (up to a ``/``) that stay in
            floating point where the precision is int8 or fp8; by the engine's names for them.
        params: The backend's parameters, or its fields by name.
        export: How to export: the IR, the exporter, rewriters of your own, cuts.
        verify: How to compare: probes, tolerances, what may pass.
        config: A deploy config or the path of one: it says what is not given here, and rewriters
            see it as ``ctx.config``.
        overwrite: Replace the artifact that is there already, once the new one is complete.
        watch: Called with each step when it starts, when its detail changes and when it ends. True
            shows the steps, in a notebook, on a terminal or as lines on stderr.

    Raises:
        UsageError: An argument is wrong; nothing was written.
        BackendUnavailableError: The backend cannot be used.
        ModelError: The model's forward raised.
        ExportError: No exporter could do it.
        ConversionError: The engine's converter failed.
        ChildTimeoutError: Its processes ran past ``verify.timeout``.
        NotVerifiedError: The numbers differ, the engine crashed, or nothing shows that they are
            right; carries ``.verdict``.

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
        precision=precision,
        dynamic=dynamic,
        data=data,
        export=export,
        verify=verify,
    )
    if isinstance(args, RecordedCalls) and settings.data is None:
        settings = msgspec.structs.replace(settings, data=args)
    line = Line(settings, int8_keep=int8_keep, command=python_call())
    target = work_dir or default_work_dir(model, settings.backend.name)
    with staging(target, overwrite=overwrite) as stage, ExitStack() as model_use:
        shown = model_use.enter_context(show_steps()) if watch is True else watch or None
        steps = Steps(shown)
        with steps("reference") as set_detail:
            was_imported = "torch" in sys.modules
            source = settings.find(model, args)
            model_use.enter_context(unchanged(source))
            prepared = line.prepare(source, args)
            imported = "torch" in sys.modules and not was_imported  # seconds, often most of them
            detail = prepared.reference.description
            set_detail(f"{detail}; and the import of torch" if imported else detail)
        return line.deploy(prepared, stage, steps)
