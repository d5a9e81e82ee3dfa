"""A part of an evaluation in a worker: some shards of its items."""

from __future__ import annotations

from contextlib import ExitStack, chdir
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from enginebay import DataSet
from enginebay.errors import ArtifactError, EnginebayError, InputError, UsageError
from enginebay_lab.evaluation.candidates import common_task, find_candidates
from enginebay_lab.evaluation.chunks import Reader
from enginebay_lab.evaluation.evaluation_job import EvaluationJob, check_files
from enginebay_lab.evaluation.find import find_metrics
from enginebay_lab.evaluation.loop import Loop
from enginebay_lab.evaluation.reference import torch_model
from enginebay_lab.evaluation.run import Run
from enginebay_lab.evaluation.shards import Shard
from enginebay_lab.resources import host_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.reference import TorchModel


class ShardTask(msgspec.Struct, frozen=True):
    """The part of an evaluation that a worker does.

    Attributes:
        job: The evaluation.
        start: The place of the first item.
        stop: The place behind the last one.
    """

    job: EvaluationJob
    start: int
    stop: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker found.

    Attributes:
        shards: Its shards, in order.
        model: A digest of the model's weights and its source; empty without a model.
    """

    shards: list[Shard] = []
    model: str = ""


class _Opened(NamedTuple):
    """An evaluation whose engines run in this process's children, for one task after the other."""

    job: EvaluationJob
    stack: ExitStack
    run: Run
    loop: Loop
    model: TorchModel | None


#: At most one: opening the next evaluation closes it.
_opened: list[_Opened] = []


def evaluate_shards(data: bytes) -> bytes:
    """Evaluate some shards; called in a worker.

    Args:
        data: An encoded :class:`ShardTask`.

    Returns:
        An encoded :class:`Answer`.

    Raises:
        EnginebayError: Whatever an evaluation raises; what only this machine does names it.
    """
    task = msgspec.msgpack.decode(data, type=ShardTask)
    where = f" (on {host_name()})"
    try:
        with _entered(task.job.folder):
            opened = _open(task.job)
            where = ""  # what an item does is the same everywhere
            return msgspec.msgpack.encode(_answer(opened, task))
    except BaseException as err:
        _close()  # its engines may have items that nobody waits for
        if isinstance(err, EnginebayError):
            err.args = (f"{err}{where}", *err.args[1:])
        raise


def _entered(folder: str) -> chdir[str]:
    if not Path(folder).is_dir():
        raise UsageError(
            f"there is no folder '{folder}'",
            hint="start the workers where they see the same files, or copy them there",
        )
    return chdir(folder)


def _answer(opened: _Opened, task: ShardTask) -> Answer:
    run, loop, model = opened.run, opened.loop, opened.model
    loop.start(run.candidates)  # those that an earlier task has lost
    loop.begin(model)
    part = run.data.part(task.start, task.stop)
    shards = [
        msgspec.structs.replace(shard, start=task.start + shard.start)
        for shard in loop.shards(Reader(part, run.inputs))
    ]
    found = sum(shard.count for shard in shards)
    if found != task.stop - task.start:
        raise InputError(
            f"{run.data.description} gave {task.start + found} items, and {task.stop} or more "
            "before",
            hint="a data set must be the same every time it is read",
        )
    try:
        packed = [shard.packed() for shard in shards]
    except TypeError as err:
        raise UsageError(
            f"the state of a metric cannot be sent: {err}",
            hint="metric_state is a dict of numbers, arrays, and lists of them",
        ) from err
    return Answer(shards=packed, model=model.identity if model else "")


def _open(job: EvaluationJob) -> _Opened:
    if _opened and _opened[0].job == job:
        return _opened[0]
    _close()
    check_files(job)
    candidates = find_candidates(list(job.artifacts))
    _check_artifacts(job, candidates)
    data = DataSet(job.data, job.take, job.seed)
    if data.needs_task:
        data = data.for_task(common_task(candidates))
    run = Run(candidates, find_metrics(list(job.metrics)), data)
    with ExitStack() as stack:
        loop = stack.enter_context(Loop(run, timeout=job.timeout))
        loop.start(candidates)  # they load while PyTorch does
        model = None
        if job.model:
            import torch

            torch.set_num_threads(job.threads)
            model = stack.enter_context(torch_model(job.model, run))
            _ = model.identity  # before items change what it keeps
        _opened.append(_Opened(job, stack.pop_all(), run, loop, model))
    return _opened[0]


def _close() -> None:
    while _opened:
        _opened.pop().stack.close()


def _check_artifacts(job: EvaluationJob, candidates: Sequence[Candidate]) -> None:
    for candidate in candidates:
        if candidate.identity != job.artifacts[candidate.name]:
            raise ArtifactError(
                f"'{candidate.name}' is another artifact than where the evaluation was begun",
                hint="copy that one there",
            )
