"""``sensitivity``: what each layer of an 8-bit engine costs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import SAMPLES_FILE
from enginebay.backend import check_runs_here
from enginebay.errors import UsageError
from enginebay.images import read_task
from enginebay.models import unchanged
from enginebay.operations import Steps
from enginebay.operations.build_engine import Build, build_engine
from enginebay.operations.preparation import prepare
from enginebay.operations.settings import resolve_settings
from enginebay.rewriting import check_sets
from enginebay.tensors import save_samples
from enginebay.verification import ProbeSettings, judge
from enginebay_lab.diagnosis.int8_layers import RANKED_ON, NodeSensitivity, rank_nodes
from enginebay_lab.diagnosis.judged import Judged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay import BackendParams, ExportOptions
    from enginebay.operations import Step
    from enginebay.operations.build_engine import Engine


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`sensitivity`.

    Attributes:
        backend: The backend.
        precision: Its precision: ``int8`` or ``fp8``.
        items: How many items of the data set the nodes were measured on.
        nodes: What each costs alone; the costliest comes first.
    """

    backend: str
    precision: str
    items: int
    nodes: tuple[NodeSensitivity, ...]


def sensitivity(
    model: Any,
    args: Any = None,
    *,
    data: Any = None,
    backend: str | None = None,
    params: BackendParams | Mapping[str, Any] | None = None,
    precision: str | None = None,
    export: ExportOptions | None = None,
    config: Mapping[str, Any] | str | Path | None = None,
    int8_keep: Sequence[str] = (),
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
) -> Sensitivity:
    """Measure what each layer of an 8-bit engine costs: one alone in 8 bits, time after time.

    Each is calibrated with 64 items of the data set and compared with the model on them. Their
    noises add up in the whole, so ``int8_keep`` of the worst ones, in :func:`enginebay.deploy`,
    gains most; :func:`enginebay_lab.quantize` chooses by itself.

    Args:
        model: As :func:`enginebay.deploy` takes it, and so are the arguments that follow.
        args: Example inputs.
        data: An :class:`enginebay.DataSet`, or what one is made of.
        backend: The engine.
        params: Its parameters, with the precision ``int8`` or ``fp8``.
        precision: One of its parameters.
        export: How to export.
        config: A deploy config or the path of one.
        int8_keep: Leave out what these name; they are in floating point.
        timeout: Seconds that the child processes of the conversion may take, and again those of
            each trial.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The precision is not an 8-bit one, or the backend cannot keep layers out of it.
        ParamsError: There is no data.
    """
    settings = resolve_settings(
        config, backend=backend, params=params, precision=precision, data=data, export=export
    )
    settings.backend.check_calibrated(settings.params, "sensitivity measures layers in 8 bits")
    check_runs_here(
        *(settings.backend, settings.params, "sensitivity runs the engine"),
        hint="measure the layers on a machine that it is built for",
    )
    check_sets(settings.export.rewriters)
    task = settings.export.task
    given_task = None if task is None else read_task(task)
    if settings.export.partition:
        raise UsageError("the layers of a model that is cut cannot be measured")
    data_set = settings.data_set()
    steps = Steps(watch)
    source = settings.find(model, args)
    with TemporaryDirectory(prefix="enginebay-sensitivity-") as folder, unchanged(source):
        with steps("reference"):
            prepared = prepare(
                *(settings, source, args, data_set),
                items=RANKED_ON,
                probes=ProbeSettings(0),
                task=given_task,
            )
        reference = prepared.reference
        if reference.missing:
            raise UsageError(f"there is nothing to measure layers by: {reference.missing}")
        build = Build(
            *(settings, prepared.model, reference, Path(folder)),
            *(steps, timeout, prepared.data),
            keep=tuple(int8_keep),
        )
        engine = build_engine(build)
        recorded = Path(folder) / SAMPLES_FILE
        save_samples(recorded, engine.samples)

        def judged(trial: Engine) -> Judged:
            request = trial.load_request(strict=False)
            return Judged(trial, *judge(request, recorded, reference.description, timeout=timeout))

        with steps("rank") as set_detail:
            nodes = rank_nodes(engine, judged, set_detail)
    return Sensitivity(
        backend=settings.backend.name,
        precision=settings.precision,
        items=sum(sample.kind == "item" for sample in reference.samples),
        nodes=tuple(nodes),
    )
