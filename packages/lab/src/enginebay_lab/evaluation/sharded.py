"""An evaluation on an executor: each task is some shards of the items."""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import EnginebayError, ModelError
from enginebay_lab.evaluation.resuming import first_shards, unchanged_shards
from enginebay_lab.evaluation.shard_task import Answer, ShardTask
from enginebay_lab.evaluation.shards import SHARD, Shard
from enginebay_lab.executors.running import run_tasks
from enginebay_lab.executors.tasks import Outcome, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.evaluation_job import EvaluationJob
    from enginebay_lab.evaluation.run import Run
    from enginebay_lab.evaluation.totals import Totals

FUNCTION = "enginebay_lab.evaluation.shard_task:evaluate_shards"
#: Tasks into which an evaluation is cut at most: enough for any cluster, and few enough that
#: sending them takes no time beside the items.
TASKS = 1024
#: Seconds for a worker to import PyTorch and load the model, for which nobody gave a limit.
LOADING = 600.0


def evaluate_on(
    executor: Executor,
    run: Run,
    job: EvaluationJob,
    candidates: Sequence[Candidate],
    watch: Callable[[int], None],
) -> Totals:
    """Evaluate every item.

    Args:
        executor: Any executor.
        run: What is evaluated.
        job: The same for the workers.
        candidates: The artifacts, maybe only some of them.
        watch: Called with the number of items so far.

    Raises:
        InputError: An item does not fit.
        ModelError: The model raised, or is another one in another worker.
        EnginebayError: A metric raised on PyTorch's outputs, or items were not evaluated; says
            which and why. The journal keeps what was done.
    """
    names = {each.name for each in candidates}
    missing = {name: digest for name, digest in job.artifacts.items() if name in names}
    job = msgspec.structs.replace(job, artifacts=missing)
    merger = _Merger(run, candidates, compared=bool(job.model))
    try:
        watch(merger.done)
        # Closed at once: an error keeps its frames, and tasks would go on until it is gone.
        with closing(run_tasks(merger.tasks(job), executor)) as outcomes:
            for outcome in outcomes:
                merger.add(outcome)
                watch(merger.done)
                if run.journal is not None and run.journal.is_due:
                    merger.save()
    except BaseException:
        if run.journal is not None:
            merger.save()
        raise
    return merger.totals


class _Merger:
    """Shards that come in any order, merged in the order of the items."""

    def __init__(self, run: Run, candidates: Sequence[Candidate], *, compared: bool) -> None:
        self._run = run
        self._count = len(run.data)
        if not self._count:
            next(run.data.items())  # which raises
        self.totals, reader, shards = first_shards(run, candidates, compared=compared)
        self._model = run.model
        self._names: dict[str, str] = {}
        self._waiting: dict[int, Shard] = {}
        for shard in unchanged_shards(reader, shards):
            if shard.start + shard.count == self._stop(shard.start):
                self._waiting[shard.start] = shard
        self._merge()

    @property
    def done(self) -> int:
        """How many items were evaluated."""
        return self.totals.count + sum(shard.count for shard in self._waiting.values())

    def tasks(self, job: EvaluationJob) -> Iterator[Task]:
        """The shards that are missing, as tasks of those that follow one another."""
        starts = range(self.totals.count, self._count, SHARD)
        missing = enumerate(start for start in starts if start not in self._waiting)
        size = SHARD * max(1, -(-self._count // (SHARD * TASKS)))
        limit = LOADING + 2 * job.timeout * (1 + len(job.artifacts))
        for _, group in groupby(missing, lambda one: (one[1] // size, one[1] - SHARD * one[0])):
            members = [start for _, start in group]
            start, stop = members[0], self._stop(members[-1])
            self._names[str(start)] = f"items {start} to {stop - 1} of {self._run.data.description}"
            data = msgspec.msgpack.encode(ShardTask(job, start, stop))
            yield Task(str(start), FUNCTION, data, limit)

    def add(self, outcome: Outcome) -> None:
        """Add what a task found.

        Raises:
            EnginebayError: It found nothing; says why.
        """
        if outcome.value is None:
            assert outcome.fault is not None
            if outcome.fault.error:
                raise outcome.fault.exception()
            where = f" on {outcome.host}" if outcome.host else ""
            raise EnginebayError(
                f"{self._names[outcome.key]} were not evaluated{where}: {outcome.fault.reason}",
                hint=outcome.fault.hint or self._advice(),
            )
        answer = self._read(outcome)
        self._check_model(answer.model, outcome.host)
        for shard in answer.shards:
            self._waiting[shard.start] = shard.unpacked()
        self._merge()

    def _read(self, outcome: Outcome) -> Answer:
        """Read a worker's answer, which is a stranger's data.

        Raises:
            EnginebayError: It is none to this task.
        """
        try:
            answer = msgspec.msgpack.decode(outcome.value or b"", type=Answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as err:
            problem = str(err)
        else:
            if all(
                shard.start % SHARD == 0 and shard.start < self._count for shard in answer.shards
            ):
                return answer
            problem = "it has shards of other items"
        where = f"not evaluated on {outcome.host}" if outcome.host else "not evaluated"
        raise EnginebayError(
            f"{self._names[outcome.key]} were {where}: the answer is damaged: {problem}",
            hint=self._advice(),
        )

    def save(self) -> None:
        """Keep what was done, as a checkpoint."""
        assert self._run.journal is not None
        self.totals.save(self._run.journal, self._waiting.values())

    def _check_model(self, found: str, host: str) -> None:
        """Refuse figures of another model: one that is built at random, or of another version."""
        self._model = self._model or found
        if found != self._model:
            raise ModelError(
                f"the model on {host} has other weights, or another source file, than elsewhere",
                hint="fix the seed where it is built, or load its weights from a file",
            )

    def _advice(self) -> str:
        if self._run.journal is None:
            return "with --output ROWS another run can go on, with --resume"
        return "go on with --resume"

    def _merge(self) -> None:
        while self.totals.count in self._waiting:
            self.totals.merge(self._waiting.pop(self.totals.count))

    def _stop(self, start: int) -> int:
        return min(start + SHARD, self._count)
