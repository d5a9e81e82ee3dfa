"""``evaluate``: measure the accuracy that artifacts lose on a data set, compared with PyTorch."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from enginebay import DataSet
from enginebay.authors import Steps
from enginebay.errors import Hint, UsageError, argument
from enginebay_lab.evaluation.checkpoints import EvaluationJournal
from enginebay_lab.evaluation.evaluation_job import describe_job
from enginebay_lab.evaluation.evaluation_loop import EvaluationLoop
from enginebay_lab.evaluation.evaluation_rows import Evaluation
from enginebay_lab.evaluation.evaluation_run import EvaluationRun
from enginebay_lab.evaluation.evaluation_subjects import common_task, open_subjects
from enginebay_lab.evaluation.executor_evaluation import evaluate_on_executor
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_lab.evaluation.reference import (
    find_other_weights,
    find_torch_model,
    model_identity,
    torch_model,
)
from enginebay_lab.evaluation.resume_point import resume_in_order
from enginebay_lab.executors.task_runner import check_executor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from enginebay import Artifact
    from enginebay.authors import Step
    from enginebay_lab.evaluation.evaluation_job import EvaluationJob
    from enginebay_lab.evaluation.evaluation_subjects import EvaluationSubject
    from enginebay_lab.evaluation.metric_sources import MetricSource
    from enginebay_lab.evaluation.reference import TorchModel
    from enginebay_lab.evaluation.shard_accumulator import TotalAccumulator

    #: Evaluates artifacts, and calls a function with the number of evaluated items.
    _Evaluate: TypeAlias = Callable[
        [Sequence[EvaluationSubject], Callable[[int], None]], TotalAccumulator
    ]


def evaluate(
    artifacts: str | Path | Artifact | Sequence[str | Path | Artifact],
    data: object,
    metrics: object,
    *,
    model: object = None,
    timeout: float = 1800.0,
    output: str | Path | None = None,
    resume: bool = False,
    executor: Executor | None = None,
    watch: Callable[[Step], None] | None = None,
) -> Evaluation:
    """Measure the accuracy of artifacts and of the PyTorch model on the same items.

    Each engine runs in a separate child process: if an engine crashes, hangs or raises, only the
    result rows of this artifact fail. Each item is read once, and memory does not grow with the
    number of items.

    Args:
        artifacts: One artifact, or a sequence of artifacts with the same inputs. Each is a folder,
            or an artifact that :func:`enginebay.deploy` returned.
        data: An :class:`enginebay.DataSet`, or its ``source`` argument.
        metrics: One metric, or a list of metrics. Each is a name (``accuracy``, ``top-5``,
            ``mean-absolute-error``, ``cosine`` for the similarity to PyTorch's outputs,
            ``file.py:attr``, ``torchmetrics:NAME``, or ``SCHEME:NAME`` of a plugin); an object with
            ``update(outputs, target)``, ``compute()`` and ``reset()``; or a callable that returns
            such an object.
        model: The PyTorch model, in any form that :func:`enginebay.deploy` accepts; None to measure
            only the artifacts.
        timeout: Time limit in seconds for loading an engine, and again for each chunk of items. A
            chunk has one item, or up to 1024 small items.
        output: The file for the rows, with one JSON document on each line; None to write no file.
        resume: Continue an earlier evaluation that wrote ``output``: finished rows are not measured
            again, and an interrupted evaluation continues after the last item of its checkpoint.
        executor: An executor that evaluates the items in other processes or on other machines: any
            ``concurrent.futures.Executor``, such as
            ``distributed.Client(…).get_executor(pure=False)``. The workers must be able to read the
            same files. The model, the data and the metrics must be strings, as on the command line,
            and the metrics must have ``metric_state`` and ``merge_state``.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: A metric is unknown, no artifact is passed, or the artifacts have different
            inputs; or, with an executor, an argument is not a string, or the states of a metric
            cannot be merged.
        InputError: An item does not fit the inputs, or has no target although a metric needs one.
        ArtifactError: An artifact is damaged.
        ModelError: The model raised.
        EnginebayError: A metric raised on PyTorch's outputs, or workers failed to evaluate some
            items; ``resume`` evaluates only these items again.
    """
    if resume and output is None:
        raise UsageError(
            "resume requires the file of an earlier evaluation",
            hint=Hint("name the file: {}", argument("output", "ROWS")),
        )
    check_executor(executor)
    sources = find_metrics(metrics)
    _check_model_named(sources, model)
    subjects = open_subjects(artifacts)
    for subject in subjects:
        subject.artifact.warn()
    items = DataSet.of(data)
    if items.needs_task:
        items = items.for_task(common_task(subjects))
    run = EvaluationRun(subjects, sources, items)
    job = None if executor is None else describe_job(run, metrics, model, timeout)
    # Opened after all checks: a usage error leaves no file.
    journal = run.journal = (
        None if output is None else EvaluationJournal(Path(output), resume=resume)
    )
    steps = Steps(watch)
    totals = None
    with ExitStack() as stack:
        if executor is None or job is None:
            loop = stack.enter_context(EvaluationLoop(run, timeout=timeout))
            evaluate_items = stack.enter_context(_evaluation_here(run, loop, model, steps))
        else:
            evaluate_items = _evaluation_on_executor(executor, run, job, steps)
        rows = run.read_finished_rows()
        missing = [subject for subject in subjects if subject.name not in rows]
        if missing:
            with steps("evaluate") as set_detail:
                totals = evaluate_items(
                    missing, lambda count: set_detail(_describe_progress(count, items.count))
                )
            for subject in missing:
                subject_rows = totals.make_rows(subject)
                rows[subject.name] = run.write_rows(subject, subject_rows, totals.digest.text)
    if journal is not None:
        journal.finish()
    record = run.data.record()
    if totals is not None:  # workers may have read the items
        replace = msgspec.structs.replace
        record = replace(record, count=totals.count, digest=totals.digest.inputs)
    return Evaluation(
        rows=tuple(row for subject in subjects for row in rows[subject.name]),
        data=record,
        reference="" if model is None else "the PyTorch model",
        batch_note=run.batch_note,
        other_weights=run.other_weights,
    )


@contextmanager
def _evaluation_here(
    run: EvaluationRun, loop: EvaluationLoop, model: object, steps: Steps
) -> Iterator[_Evaluate]:
    """Load the model, and yield a function that evaluates artifacts on this machine."""
    if not run.has_earlier_rows:  # else the engines of finished rows would load for nothing
        loop.start_engines(run.subjects)  # they load while PyTorch loads
    with ExitStack() as stack:
        bound = None
        if model is not None:
            with steps("load"):
                bound = stack.enter_context(torch_model(model, run))
                # Only rows and checkpoints in a file need it; it takes time to read all weights.
                run.model_digest = bound.identity if run.journal else ""
                run.other_weights = bound.find_other_weights(run.subjects)
        yield partial(_evaluate_here, run, loop, bound)


def _evaluate_here(
    run: EvaluationRun,
    loop: EvaluationLoop,
    model: TorchModel | None,
    subjects: Sequence[EvaluationSubject],
    watch: Callable[[int], None],
) -> TotalAccumulator:
    loop.start_engines(subjects)  # those that do not run yet
    totals, reader, incomplete = resume_in_order(run, subjects, has_model=model is not None)
    loop.begin(model, totals.count, totals.lost)
    if incomplete is not None:
        loop.restore(incomplete)

    def after_chunk(count: int) -> None:
        watch(count)
        if run.journal is not None and run.journal.is_due:
            totals.save_checkpoint(run.journal, [loop.incomplete_shard(reader)])

    for shard in loop.evaluate_shards(reader, after_chunk):
        totals.merge(shard)
    return totals


def _evaluation_on_executor(
    executor: Executor, run: EvaluationRun, job: EvaluationJob, steps: Steps
) -> _Evaluate:
    """Return a function that evaluates artifacts on an executor's workers."""
    if job.model:
        with steps("load"):
            source = find_torch_model(job.model)
            run.other_weights = find_other_weights(source, run.subjects)
            if run.journal is not None:  # the keys of rows and checkpoints depend on the weights
                run.model_digest = model_identity(source)
    return partial(evaluate_on_executor, executor, run, job)


def _check_model_named(sources: Sequence[MetricSource], model: object) -> None:
    for source in sources:
        if model is None and source.against == "reference":
            raise UsageError(
                f"metric '{source.name}' requires a PyTorch model to compare with",
                hint="name the model: --model MODEL",
            )


def _describe_progress(count: int, total: int | None) -> str:
    return f"{count} items" if total is None else f"{count} of {total} items"
