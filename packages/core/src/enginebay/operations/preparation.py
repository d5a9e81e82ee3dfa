"""Preparation of a model for its export: bound inputs and recorded reference outputs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.data import DataSet
from enginebay.errors import (
    InputError,
    MissingDependencyError,
    ModelError,
    ModelSourceError,
    UsageError,
)
from enginebay.models import RecordedCalls, bind, file_dimensions, shapes_of, to_profiles
from enginebay.reference import note_precision, record_reference, reference_model
from enginebay.sources import check_source, digest_weights, find_model, map_weights
from enginebay.state import ModelState, unchanged
from enginebay.task_records import record_task
from enginebay.tasks import read_task

if TYPE_CHECKING:
    from contextlib import ExitStack

    from enginebay.data import DataRecord
    from enginebay.hooks import Task
    from enginebay.models import BoundModel
    from enginebay.operations.settings import Settings
    from enginebay.operations.steps import Steps
    from enginebay.sources import ModelSource
    from enginebay.verification import RecordedReference

#: The maximum number of a data set's items that an artifact is verified on and stores.
_MAX_VERIFIED_ITEMS = 64


@dataclass(frozen=True)
class PreparedModel:
    """A model with its reference outputs and data, from which an engine is built and verified.

    Attributes:
        model: The model, bound to its example inputs.
        reference: The inputs and expected outputs that the engine will be verified with.
        task: The model's task as plain data; None if unknown.
        notes: A note with the reason why the task could not be read; empty if it was read.
        data: The calibration data; None without data.
        digest: SHA-256 of the model's weights before its first run, or of its ONNX file.
        verified_on: The items of ``data`` whose outputs are in ``reference``; None without data.
    """

    model: BoundModel
    reference: RecordedReference
    task: dict[str, Any] | None
    notes: tuple[str, ...]
    data: DataSet | None
    digest: str
    verified_on: DataSet | None

    def record(self) -> dict[str, Any]:
        """Return what the manifest records: the model, its weights, its task and its data."""
        return {
            "model": self.model.source.named,
            "weights": self.model.source.weights,
            "reference_sha256": self.digest,
            "task": self.task,
            "data": self._record_data(),
        }

    def _record_data(self) -> DataRecord | None:
        # If the calibration has read no item, the verification may have.
        for data in (self.data, self.verified_on):
            if data is not None and (record := data.record()).count:
                return record
        return None


def import_torch(settings: Settings, model: object, args: object, steps: Steps) -> None:
    """Import torch in a step of its own, which takes seconds, if a named model needs it.

    Raises:
        ModelSourceError: The model's name is wrong, as far as that is visible without torch.
        InputError: The name is that of a module's class, and there are no inputs.
    """
    name = model if isinstance(model, str) else ""
    if "torch" in sys.modules or not (":" in name or settings.verify.reference is not None):
        return
    # With a config, the name may be a codebase's.
    if name.partition(":")[0].endswith(".py") and settings.values is None:
        params = settings.params
        shapes = params.input_shapes or params.min_shapes or params.max_shapes
        given = args is not None or settings.data is not None or bool(shapes)
        check_source(name, Path(), has_inputs=given)
    with steps("import torch"):
        torch_private.import_torch()


def prepare_model(
    settings: Settings, model: object, args: object, model_use: ExitStack, folder: Path
) -> PreparedModel:
    """Find a model, bind it to example inputs, and record its outputs before any rewriting.

    Args:
        settings: The backend, its parameters, and the options of export and verification.
        model: The model or its name, as for :func:`enginebay.deploy`.
        args: Example inputs; None for the example of the model source or, if the source has no
            example, for the first item of the data.
        model_use: When this stack is closed, the model is as it was before.
        folder: Where large weights of a model that was named are mapped from.

    Raises:
        UsageError: The task does not fit the model.
    """
    shapes = shapes_of(args) or settings.params.input_shapes
    source = find_model(model, settings.codebase_config, shapes)
    # An object is the caller's, who may hold its weights elsewhere too.
    if isinstance(model, str) and source.model is not None and source.ir is None:
        map_weights(source.module, folder)
    model_use.enter_context(unchanged(source))
    data, task = settings.data, settings.task
    notes: tuple[str, ...] = ()
    if task is None and source.task is not None:
        task, notes = _read_own_task(source, data)
    # Not "if data": the truth value counts the items, which reads a stream to its end.
    some = None if data is None else data.for_task(task).some(_MAX_VERIFIED_ITEMS)
    judge = source
    if settings.verify.reference is not None:
        judge = find_model(settings.verify.reference)
        if judge.model is None:
            raise UsageError(
                f"the reference '{judge.description}' is not a PyTorch model",
                hint="pass the model that the file was exported from; two ONNX files are compared "
                "by enginebay audit FILE FILE",
            )
        model_use.enter_context(unchanged(judge))
    # Recorded before the model runs for the first time, so that state which a run changes is found.
    state = None if judge.model is None else ModelState(judge.module, fully=True)
    if source.model is not None:
        digest = digest_weights(source.module)
    else:
        digest = source.ir.digest() if source.ir else ""
    if judge is source:
        bound = expected = _bind_inputs(settings, source, args, some)
    else:
        bound, expected = _bind_pair(settings, source, judge, args, some)
    fitted = None if task is None else task.fit(bound.open_inputs, bound.outputs)
    settings.backend.check_dtypes(bound.inputs)
    probes = settings.probes
    # The recorded calls define the range of the probes and are the data, unless others were passed.
    if isinstance(args, RecordedCalls):
        probes = replace(probes, domain=args.domain([*bound.examples]) | probes.domain)
        if settings.calls_are_data:
            data = DataSet(args.fitting(bound.example_shapes, bound.dynamic))
    if data is not None:
        data = _fit_data(data, bound, fitted)
        some = data.some(_MAX_VERIFIED_ITEMS)
    try:
        reference = record_reference(
            expected,
            settings.backend.name,
            state=state,
            precision=settings.precision,
            settings=probes,
            items=() if some is None else some.items(bound.open_inputs),
            comparators=settings.comparators,
        )
    except ModelError as err:
        if judge is not source:
            err.hint = "limit the sizes of the file: --min-shapes and --max-shapes"
            if lost := [name for name in expected.examples if name not in source.input_names]:
                err.hint += f"; the file does not take {', '.join(lost)}, which the model takes"
        raise
    if judge is not source:
        reference = _name_reference(reference, judge, source)
    record = source.task if fitted is None else record_task(fitted)
    return PreparedModel(bound, reference, record, notes, data, digest, some)


def _bind_inputs(
    settings: Settings, source: ModelSource, args: object, data: DataSet | None
) -> BoundModel:
    if args is None and source.example_inputs is None and data is not None:
        args = next(iter(data)).inputs
    return bind(
        source,
        args,
        input_names=settings.export.input_names,
        output_names=settings.export.output_names,
        dynamic=settings.dynamic,
        input_shapes=settings.params.input_shapes,
        min_shapes=settings.params.min_shapes,
        max_shapes=settings.params.max_shapes,
        timeout=settings.verify.timeout,
    )


def _bind_pair(
    settings: Settings,
    source: ModelSource,
    judge: ModelSource,
    args: object,
    data: DataSet | None,
) -> tuple[BoundModel, BoundModel]:
    """Bind a model and its reference to the same inputs, at the sizes that the model leaves open.

    Without an example of the caller, the reference's own example serves both.
    """
    names = source.input_names
    if args is None and judge.example_inputs is not None:
        examples = reference_model(judge, names, None, None).examples
        args = {name: examples[name] for name in names if name in examples}
    bound = _bind_inputs(settings, source, args, data)
    outputs = [spec.name for spec in bound.outputs]
    if bound.signature is None:
        dynamic = file_dimensions(bound.inputs, bound.profiles)
        profiles = to_profiles(dynamic, bound.example_shapes)
        bound = replace(bound, dynamic=dynamic, profiles=profiles)
    try:
        return bound, reference_model(judge, names, bound.examples, outputs, bound.dynamic)
    except InputError as err:
        text = f"the reference '{_label(judge)}' does not fit '{source.description}': {err}"
        raise InputError(text, hint=err.full_hint) from err


def _name_reference(
    reference: RecordedReference, judge: ModelSource, source: ModelSource
) -> RecordedReference:
    """Return the reference with the name of its model, judged in the precision of the file."""
    basis = reference.basis
    if source.model is None and source.ir is not None:
        basis = note_precision(basis, source.ir.path)
    name = f"{reference.description} ('{_label(judge)}')"
    return replace(reference, description=name, basis=basis)


def _label(source: ModelSource) -> str:
    """Return the text that names a model or, for a Python object, its class."""
    return source.description if source.named else type(source.model).__name__


def _fit_data(data: DataSet, model: BoundModel, task: Task | None) -> DataSet:
    # Again, with the names and dtypes of the bound inputs, which a task may leave out.
    data = data.for_task(task)
    # int8 is judged by its decision on each row, and not on whole batches, if the model accepts a
    # batch of one.
    if all(axes[0].min <= 1 for axes in model.dynamic.values() if 0 in axes):
        data = data.for_inputs(model.open_inputs, split="labelled")
    return data


def _read_own_task(
    source: ModelSource, data: DataSet | None
) -> tuple[Task | None, tuple[str, ...]]:
    """Return the task of a model source; if no plugin can read the task, return None and a note."""
    try:
        return read_task(source.task), ()
    except UsageError as err:
        raise ModelSourceError(
            f"invalid task of '{source.description}': {err}", hint=err.full_hint
        ) from err
    except MissingDependencyError as err:
        # The items of this data set, such as images, cannot be read without the task.
        if data is not None and data.needs_task:
            raise
        return None, (f"{err}, so it is stored unread: {err.hint}",)
