"""``evaluate``: what do artifacts cost in accuracy, on a data set, beside PyTorch?"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from enginebay import DataSet
from enginebay.authors import Steps
from enginebay.errors import UsageError
from enginebay_lab.evaluation.candidates import common_task, find_candidates
from enginebay_lab.evaluation.checkpoints import EvaluationJournal
from enginebay_lab.evaluation.evaluation_job import describe_job
from enginebay_lab.evaluation.evaluation_rows import Evaluation
from enginebay_lab.evaluation.find import find_metrics
from enginebay_lab.evaluation.loop import Loop
from enginebay_lab.evaluation.reference import find_torch_model, model_identity, torch_model
from enginebay_lab.evaluation.resuming import resumed
from enginebay_lab.evaluation.run import Run
from enginebay_lab.evaluation.sharded import evaluate_on
from enginebay_lab.executors.running import check_executor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from enginebay import Artifact
    from enginebay.authors import Step
    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.evaluation_job import EvaluationJob
    from enginebay_lab.evaluation.find import MetricSource
    from enginebay_lab.evaluation.reference import TorchModel
    from enginebay_lab.evaluation.totals import Totals

    _Evaluate: TypeAlias = Callable[[Sequence[Candidate], Callable[[int], None]], Totals]


def evaluate(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
    data: Any,
    metrics: Any,
    *,
    model: Any = None,
    timeout: float = 1800.0,
    output: str | Path | None = None,
    resume: bool = False,
    executor: Executor | None = None,
    watch: Callable[[Step], None] | None = None,
) -> Evaluation:
    """Measure what artifacts cost in accuracy: PyTorch and each of them on the same items.

    Each item is read once. Each engine runs in a child process: an artifact that crashes, hangs
    or raises loses its own rows only. Memory does not grow with the number of items.

    Args:
        artifacts: One folder, or what :func:`enginebay.deploy` returned, or several of them,
            which take the same inputs.
        data: An :class:`enginebay.DataSet`, or what one is made of.
        metrics: One or several: ``accuracy``, ``top-5``, ``mean-absolute-error``, ``cosine`` (to
            PyTorch), ``file.py:attr``, ``torchmetrics:NAME``, ``SCHEME:NAME`` of a plugin; an
            object with ``update(outputs, target)``, ``compute()`` and ``reset()``; or a callable
            that returns one.
        model: The PyTorch model, as :func:`enginebay.deploy` takes it; without it there are
            values, but nothing to compare them with.
        timeout: Seconds that an engine may take to load, and for each chunk of items: one item,
            or up to 1024 small ones.
        output: A file that rows are written to, as JSON, a line each.
        resume: Go on with what ``output`` holds: rows that are there are not measured again, and
            an evaluation that was ended goes on at the item where it was.
        executor: Evaluates the items on other processes or machines: any of
            ``concurrent.futures``, or ``distributed.Client(…).get_executor(pure=False)``. They
            must see the same files; the model, the data and the metrics are given as text, as on
            the command line, and metrics have ``metric_state`` and ``merge_state``.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Returns:
        A row for each artifact and metric.

    Raises:
        UsageError: A metric is none, there is no artifact, or the artifacts take other inputs; or
            with an executor, something has no name, or a metric cannot be merged.
        InputError: An item does not fit, or lacks a target that a metric needs.
        ArtifactError: An artifact is damaged.
        ModelError: The model raised.
        EnginebayError: A metric raised on PyTorch's outputs; or items were not evaluated, as the
            executor's workers died or could not: ``resume`` goes on with what was done.
    """
    if resume and output is None:
        raise UsageError("there is nothing to go on with", hint="name the file: --output ROWS")
    check_executor(executor)
    sources = find_metrics(metrics)
    _check_reference(sources, model)
    candidates = find_candidates(artifacts)
    items = DataSet.of(data)
    if items.needs_task:
        items = items.for_task(common_task(candidates))
    run = Run(candidates, sources, items)
    job = None if executor is None else describe_job(run, metrics, model, timeout)
    journal = run.journal = (
        None if output is None else EvaluationJournal(Path(output), resume=resume)
    )
    steps = Steps(watch)
    totals = None
    with ExitStack() as stack:
        if executor is None or job is None:
            loop = stack.enter_context(Loop(run, timeout=timeout))
            evaluate_items = stack.enter_context(_here(run, loop, model, steps))
        else:
            evaluate_items = _on_executor(executor, run, job, steps)
        rows = run.finished()
        missing = [each for each in candidates if each.name not in rows]
        if missing:
            with steps("evaluate") as set_detail:
                totals = evaluate_items(
                    missing, lambda count: set_detail(_progress(count, items.count))
                )
            run.digest = totals.digest.text
            for each in missing:
                rows[each.name] = run.write(each, totals.rows(each))
    if journal is not None:
        journal.finish()
    record = run.data.record()
    if totals is not None:  # the items may have been read elsewhere
        replace = msgspec.structs.replace
        record = replace(record, count=totals.count, digest=totals.digest.inputs)
    return Evaluation(
        rows=tuple(row for each in candidates for row in rows[each.name]),
        data=record,
        reference="" if model is None else "the PyTorch model",
    )


@contextmanager
def _here(run: Run, loop: Loop, model: Any, steps: Steps) -> Iterator[_Evaluate]:
    """Yield a function that evaluates artifacts in this process."""
    if not run.may_be_finished:
        loop.start(run.candidates)  # they load while PyTorch does
    with ExitStack() as stack:
        bound = None
        if model is not None:
            with steps("load"):
                bound = stack.enter_context(torch_model(model, run))
                run.model = bound.identity if run.journal else ""

        yield partial(_evaluate_here, run, loop, bound)


def _evaluate_here(
    run: Run,
    loop: Loop,
    model: TorchModel | None,
    candidates: Sequence[Candidate],
    watch: Callable[[int], None],
) -> Totals:
    loop.start(candidates)
    totals, reader, begun = resumed(run, candidates, compared=model is not None)
    loop.begin(model, totals.count, totals.lost)
    if begun is not None:
        loop.restore(begun)

    def after_chunk(count: int) -> None:
        watch(count)
        if run.journal is not None and run.journal.is_due:
            totals.save(run.journal, [loop.open_shard(reader)])

    for shard in loop.shards(reader, after_chunk):
        totals.merge(shard)
    return totals


def _on_executor(executor: Executor, run: Run, job: EvaluationJob, steps: Steps) -> _Evaluate:
    """Return a function that evaluates artifacts on an executor."""
    if job.model and run.journal is not None:
        with steps("load"):  # rows and checkpoints are those of a model with these weights
            run.model = model_identity(find_torch_model(job.model))
    return partial(evaluate_on, executor, run, job)


def _check_reference(sources: Sequence[MetricSource], model: Any) -> None:
    for source in sources:
        if model is None and source.against == "reference":
            raise UsageError(
                f"metric '{source.name}' compares with PyTorch, and there is no model",
                hint="name the model: --model MODEL",
            )


def _progress(count: int, total: int | None) -> str:
    return f"{count} items" if total is None else f"{count} of {total} items"
