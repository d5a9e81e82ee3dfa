"""An evaluation on an executor: each task evaluates some shards (ranges of items)."""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import EnginebayError, Hint, ModelError, argument
from enginebay_lab.evaluation.resume_point import find_unchanged_shards, load_checkpoint
from enginebay_lab.evaluation.shard_task import ShardReply, ShardTask
from enginebay_lab.evaluation.shards import SHARD_ITEMS, Shard
from enginebay_lab.executors.task_runner import run_tasks
from enginebay_lab.executors.tasks import ExecutorTask, TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from enginebay_lab.evaluation.evaluation_job import EvaluationJob
    from enginebay_lab.evaluation.evaluation_run import EvaluationRun
    from enginebay_lab.evaluation.evaluation_subjects import EvaluationSubject
    from enginebay_lab.evaluation.shard_accumulator import TotalAccumulator

#: The function that runs in a worker.
FUNCTION = "enginebay_lab.evaluation.shard_task:evaluate_task"
#: Enough tasks for any cluster, and few enough that sending them takes little of the total time.
MAX_TASKS = 1024
#: Added to a task's time limit, so that a worker can import PyTorch and load the model.
LOAD_SECONDS = 600.0


def evaluate_on_executor(
    executor: Executor,
    run: EvaluationRun,
    job: EvaluationJob,
    subjects: Sequence[EvaluationSubject],
    watch: Callable[[int], None],
) -> TotalAccumulator:
    """Evaluate all items on an executor's workers, and return the merged results.

    Args:
        executor: Any ``concurrent.futures.Executor``.
        run: The artifacts, metrics and data of the evaluation.
        job: The description of the evaluation for the workers.
        subjects: The artifacts to evaluate.
        watch: Called with the number of items evaluated so far.

    Raises:
        InputError: An item does not fit the inputs.
        ModelError: The model raised, or differs between workers.
        EnginebayError: A metric raised on PyTorch's outputs, or workers failed to evaluate some
            items. The checkpoint contains the results on the other items.
    """
    names = {subject.name for subject in subjects}
    artifacts = {name: digest for name, digest in job.artifacts.items() if name in names}
    job = msgspec.structs.replace(job, artifacts=artifacts)
    merger = _ShardMerger(run, subjects, has_model=bool(job.model))
    try:
        watch(merger.count)
        # Closed at once: an error's traceback keeps the generator alive, and with it the tasks.
        with closing(run_tasks(merger.make_tasks(job), executor)) as outcomes:
            for outcome in outcomes:
                merger.add_outcome(outcome)
                watch(merger.count)
                if run.journal is not None and run.journal.is_due:
                    merger.save_checkpoint()
    except BaseException:  # Ctrl-C too: the finished shards need not be evaluated again
        if run.journal is not None:
            merger.save_checkpoint()
        raise
    return merger.totals


class _ShardMerger:
    """Merges the results of shards (ranges of items) in the order of the items.

    The results may arrive in any order; those after a missing shard wait until it has arrived.
    """

    def __init__(
        self, run: EvaluationRun, subjects: Sequence[EvaluationSubject], *, has_model: bool
    ) -> None:
        self._run = run
        self._item_count = len(run.data)
        if not self._item_count:
            next(run.data.items())  # raises the error of an empty data set
        self.totals, reader, shards = load_checkpoint(run, subjects, has_model=has_model)
        self._model_digest = run.model_digest
        self._descriptions: dict[str, str] = {}
        self._waiting: dict[int, Shard] = {}
        for shard in find_unchanged_shards(reader, shards):
            # One process may have left an incomplete shard, which is evaluated again.
            if shard.start + shard.count == self._shard_end(shard.start):
                self._waiting[shard.start] = shard
        self._merge_waiting()

    @property
    def count(self) -> int:
        """The number of items evaluated so far."""
        return self.totals.count + sum(shard.count for shard in self._waiting.values())

    def make_tasks(self, job: EvaluationJob) -> Iterator[ExecutorTask]:
        """Yield tasks for the shards (ranges of items) that have no results yet.

        Each task evaluates consecutive shards.
        """
        starts = range(self.totals.count, self._item_count, SHARD_ITEMS)
        missing = enumerate(start for start in starts if start not in self._waiting)
        task_items = SHARD_ITEMS * max(1, -(-self._item_count // (SHARD_ITEMS * MAX_TASKS)))
        limit = LOAD_SECONDS + 2 * job.timeout * (1 + len(job.artifacts))

        def task_of(numbered: tuple[int, int]) -> tuple[int, int]:
            # The second entry differs on both sides of a gap, where start grows faster than number.
            number, start = numbered
            return start // task_items, start - SHARD_ITEMS * number

        for _, group in groupby(missing, task_of):
            shard_starts = [start for _, start in group]
            start, stop = shard_starts[0], self._shard_end(shard_starts[-1])
            data = self._run.data.description
            self._descriptions[str(start)] = f"items {start} to {stop - 1} of {data}"
            task = msgspec.msgpack.encode(ShardTask(job, start, stop))
            yield ExecutorTask(str(start), FUNCTION, task, limit)

    def add_outcome(self, outcome: TaskOutcome) -> None:
        """Add the results of a task that has ended.

        Raises:
            EnginebayError: The task failed.
        """
        if outcome.value is None:
            assert outcome.fault is not None
            if outcome.fault.error:
                raise outcome.fault.to_error()
            where = f" on {outcome.host}" if outcome.host else ""
            items = self._descriptions[outcome.key]
            raise EnginebayError(
                f"{items} were not evaluated{where}: {outcome.fault.reason}",
                hint=outcome.fault.hint or self._resume_hint(),
            )
        reply = self._read_reply(outcome)
        self._check_model(reply.model, outcome.host)
        for shard in reply.shards:
            self._waiting[shard.start] = shard.unpack_metrics()
        self._merge_waiting()

    def _read_reply(self, outcome: TaskOutcome) -> ShardReply:
        # Not trusted: another program may have replied in the worker's name.
        try:
            reply = msgspec.msgpack.decode(outcome.value or b"", type=ShardReply)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as err:
            problem = str(err)
        else:
            starts = [shard.start for shard in reply.shards]
            if all(start % SHARD_ITEMS == 0 and start < self._item_count for start in starts):
                return reply
            problem = "it contains shards of other items"
        where = f" on {outcome.host}" if outcome.host else ""
        raise EnginebayError(
            f"{self._descriptions[outcome.key]} were not evaluated{where}: the worker's reply is "
            f"damaged: {problem}",
            hint=self._resume_hint(),
        )

    def save_checkpoint(self) -> None:
        """Write the results so far to the checkpoint file of the evaluation."""
        assert self._run.journal is not None
        self.totals.save_checkpoint(self._run.journal, self._waiting.values())

    def _check_model(self, digest: str, host: str) -> None:
        # They differ if the weights are random, or if workers see different source files.
        self._model_digest = self._model_digest or digest
        if digest != self._model_digest:
            raise ModelError(
                f"the weights or the source file of the model on {host} differ from those on other "
                "workers",
                hint="build the model with a fixed random seed, or load its weights from a file",
            )

    def _resume_hint(self) -> Hint:
        if self._run.journal is None:
            text = "write the rows to a file, so that the evaluation can be resumed: {}"
            return Hint(text, argument("output", "ROWS"))
        return Hint("continue with {}", argument("resume", True))

    def _merge_waiting(self) -> None:
        while self.totals.count in self._waiting:
            self.totals.merge(self._waiting.pop(self.totals.count))

    def _shard_end(self, start: int) -> int:
        return min(start + SHARD_ITEMS, self._item_count)
