"""Preparation of a model for its export: bound inputs and recorded reference outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from enginebay.data import DataSet
from enginebay.errors import MissingDependencyError, ModelSourceError, UsageError
from enginebay.models import RecordedCalls
from enginebay.reference import record_reference
from enginebay.state import ModelState
from enginebay.tasks import read_task, record_task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.comparators import Comparator
    from enginebay.data import DataRecord
    from enginebay.hooks import Task
    from enginebay.models import BoundModel
    from enginebay.operations.settings import Settings
    from enginebay.reference import ProbeSettings, RecordedReference
    from enginebay.sources import ModelSource


@dataclass(frozen=True)
class PreparedModel:
    """A model with its reference outputs and data, from which an engine is built and verified.

    Attributes:
        model: The model, bound to its example inputs.
        reference: The inputs and expected outputs that the engine will be verified with.
        task: The model's task as plain data; None if unknown.
        notes: A note with the reason why the task could not be read; empty if it was read.
        data: The calibration data; None without data.
        verified_on: The items of ``data`` whose outputs are in ``reference``; None without data.
    """

    model: BoundModel
    reference: RecordedReference
    task: dict[str, Any] | None
    notes: tuple[str, ...]
    data: DataSet | None
    verified_on: DataSet | None

    def data_record(self) -> DataRecord | None:
        """Return the manifest's entry about the data items that were read; None without items.

        These are the items of ``data`` or, if the calibration read no item, of ``verified_on``.
        """
        for data in (self.data, self.verified_on):
            if data is not None and (record := data.record()).count:
                return record
        return None


def prepare_model(
    settings: Settings,
    source: ModelSource,
    args: object,
    data: DataSet | None,
    *,
    items: int,
    probes: ProbeSettings,
    task: Task | None = None,
    comparators: Sequence[Comparator] = (),
) -> PreparedModel:
    """Return a model bound to example inputs, and the outputs of the model before any rewriting.

    Args:
        settings: The backend, its parameters, and the options of export and verification.
        source: The loaded model, with its origin and example inputs.
        args: Example inputs; None for the example of the model source or, if the source has no
            example, for the first item of the data.
        data: The data set; None without data.
        items: The maximum number of items whose outputs are recorded.
        probes: The settings of the probe inputs (generated, similar to the example).
        task: The model's task; None for the task of the model source.
        comparators: The comparators of outputs that are sets.
    """
    notes: tuple[str, ...] = ()
    if task is None and source.task is not None:
        task, notes = _read_own_task(source, data)
    # Not "if data": the truth value counts the items, which reads a stream to its end.
    some = None if data is None else data.for_task(task).some(items)
    # Recorded before the model runs for the first time, so that state which a run changes is found.
    state = None if source.model is None else ModelState(source.module, fully=True)
    model, fitted = settings.bind_inputs(source, args, some, task)
    settings.backend.check_dtypes(model.inputs)
    # The recorded calls define the range of the probes and are the data, unless others were passed.
    if isinstance(args, RecordedCalls):
        probes = replace(probes, domain=args.domain([*model.examples]) | probes.domain)
        if settings.data is args:
            data = DataSet(args.fitting(model.example_shapes, model.dynamic))
    if data is not None:
        # Again, with the names and dtypes of the bound inputs, which a task may leave out.
        data = data.for_task(fitted)
        # int8 is judged by its decision on each row, and not on whole batches, if the model accepts
        # a batch of one.
        if all(axes[0].min <= 1 for axes in model.dynamic.values() if 0 in axes):
            data = data.for_inputs(model.open_inputs, row_by_row=True)
        some = data.some(items)
    reference = record_reference(
        model,
        settings.backend.name,
        state=state,
        precision=settings.precision,
        settings=probes,
        items=() if some is None else some.items(model.open_inputs),
        comparators=comparators,
    )
    kept = source.task if fitted is None else fitted
    record = None if kept is None else record_task(kept)
    return PreparedModel(model, reference, record, notes, data, some)


def _read_own_task(
    source: ModelSource, data: DataSet | None
) -> tuple[Task | None, tuple[str, ...]]:
    """Return the task of a model source; if no plugin can read the task, return None and a note."""
    try:
        return read_task(source.task), ()
    except UsageError as err:
        raise ModelSourceError(
            f"invalid task of '{source.description}': {err}", hint=err.hint
        ) from err
    except MissingDependencyError as err:
        # The items of this data set, such as images, cannot be read without the task.
        if data is not None and data.needs_task:
            raise
        return None, (f"{err}, so it is stored unread: {err.hint}",)
