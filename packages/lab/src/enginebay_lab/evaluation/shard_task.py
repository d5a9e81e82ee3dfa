"""The function that an executor's worker runs: it evaluates a range of a data set's items."""

from __future__ import annotations

from contextlib import ExitStack, chdir
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from enginebay import DataSet
from enginebay.errors import ArtifactError, EnginebayError, InputError, UsageError
from enginebay_lab.evaluation.evaluation_job import SAME_FILES_HINT, EvaluationJob, check_files
from enginebay_lab.evaluation.evaluation_loop import EvaluationLoop
from enginebay_lab.evaluation.evaluation_run import EvaluationRun
from enginebay_lab.evaluation.evaluation_subjects import common_task, open_subjects
from enginebay_lab.evaluation.item_reader import ItemReader
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_lab.evaluation.reference import torch_model
from enginebay_lab.evaluation.shards import Shard
from enginebay_lab.resources import host_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay_lab.evaluation.evaluation_subjects import EvaluationSubject
    from enginebay_lab.evaluation.reference import TorchModel


class ShardTask(msgspec.Struct, frozen=True):
    """A task for a worker: a range of an evaluation's items.

    Attributes:
        job: The description of the evaluation.
        start: The index of the first item, which begins a shard (range of ``SHARD_ITEMS`` items).
        stop: The index after the last item.
    """

    job: EvaluationJob
    start: int
    stop: int


class ShardReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of a worker: the results of a task.

    Attributes:
        shards: The results of each shard (range of items), in order.
        model: A digest of the model's weights and source file; empty without a model.
    """

    shards: list[Shard] = []
    model: str = ""


class _OpenEvaluation(NamedTuple):
    """A worker's evaluation, whose engines stay loaded from one task to the next."""

    job: EvaluationJob
    stack: ExitStack
    run: EvaluationRun
    loop: EvaluationLoop
    model: TorchModel | None


#: At most one: opening the next evaluation closes it.
_open_evaluations: list[_OpenEvaluation] = []


def evaluate_task(data: bytes) -> bytes:
    """Evaluate a range of items; called in a worker.

    Args:
        data: An encoded :class:`ShardTask`.

    Returns:
        An encoded :class:`ShardReply`.

    Raises:
        EnginebayError: The evaluation failed. If other hosts may succeed, the message names this
            host.
    """
    task = msgspec.msgpack.decode(data, type=ShardTask)
    where = f" (on {host_name()})"
    try:
        with _enter_folder(task.job.folder):
            evaluation = _open_evaluation(task.job)
            where = ""  # errors on items are the same on every host
            return msgspec.msgpack.encode(_evaluate_range(evaluation, task))
    except BaseException as err:
        _close_evaluation()  # its engines may still have inputs whose outputs were never read
        if isinstance(err, EnginebayError):
            err.args = (f"{err}{where}", *err.args[1:])
        raise


def _enter_folder(folder: str) -> chdir[str]:
    if not Path(folder).is_dir():
        raise UsageError(f"folder '{folder}' does not exist", hint=SAME_FILES_HINT)
    return chdir(folder)  # the names in a job are relative to the client's folder


def _evaluate_range(evaluation: _OpenEvaluation, task: ShardTask) -> ShardReply:
    run, loop, model = evaluation.run, evaluation.loop, evaluation.model
    loop.start_engines(run.subjects)  # engines that failed in an earlier task start again
    loop.begin(model)
    part = run.data.part(task.start, task.stop)
    # The loop counts the items from the start of the part.
    shards = [
        msgspec.structs.replace(shard, start=task.start + shard.start)
        for shard in loop.evaluate_shards(ItemReader(part, run.inputs))
    ]
    count = sum(shard.count for shard in shards)
    if count != task.stop - task.start:
        raise InputError(
            f"{run.data.description} returned {task.start + count} items, expected at least "
            f"{task.stop}",
            hint="a data set must return the same items each time it is read",
        )
    try:
        packed = [shard.pack_metrics() for shard in shards]
    except TypeError as err:
        raise UsageError(
            f"the state of a metric cannot be sent to the client: {err}",
            hint="metric_state must be a dict of numbers, arrays, and lists of these",
        ) from err
    return ShardReply(shards=packed, model=model.identity if model else "")


def _open_evaluation(job: EvaluationJob) -> _OpenEvaluation:
    if _open_evaluations and _open_evaluations[0].job == job:
        return _open_evaluations[0]
    _close_evaluation()
    check_files(job)
    subjects = open_subjects(list(job.artifacts))
    _check_artifacts(job, subjects)
    data = DataSet(job.data, job.take, job.seed)
    if data.needs_task:
        data = data.for_task(common_task(subjects))
    run = EvaluationRun(subjects, find_metrics(list(job.metrics)), data)
    with ExitStack() as stack:
        loop = stack.enter_context(EvaluationLoop(run, timeout=job.timeout))
        loop.start_engines(subjects)  # they load while PyTorch loads
        model = None
        if job.model:
            import torch

            # As on the client: it determines the order of additions, and so the last digits.
            torch.set_num_threads(job.threads)
            model = stack.enter_context(torch_model(job.model, run))
            _ = model.identity  # cached before items run, which may change the model's buffers
        evaluation = _OpenEvaluation(job, stack.pop_all(), run, loop, model)
    _open_evaluations.append(evaluation)
    return evaluation


def _close_evaluation() -> None:
    while _open_evaluations:
        _open_evaluations.pop().stack.close()


def _check_artifacts(job: EvaluationJob, subjects: Sequence[EvaluationSubject]) -> None:
    for subject in subjects:
        if subject.identity != job.artifacts[subject.name]:
            raise ArtifactError(
                f"'{subject.name}' differs from the artifact that the evaluation started with",
                hint="copy the original folder to the worker's machine",
            )
