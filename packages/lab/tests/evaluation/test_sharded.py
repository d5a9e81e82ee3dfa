"""`lab.evaluate` on executors finds the same digits as one process, also if workers fail."""

from __future__ import annotations

import socket
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ArtifactError, EnginebayError, InputError, ModelError, UsageError
from enginebay_lab.evaluation.evaluation_job import describe_job
from enginebay_lab.evaluation.evaluation_run import EvaluationRun
from enginebay_lab.evaluation.evaluation_subjects import open_subjects
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_lab.evaluation.shard_task import ShardTask, evaluate_task
from enginebay_lab.executors.local import local_executor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Run as RunCommand

    from enginebay_lab.evaluation.evaluation_rows import Evaluation

#: The artifact "bad" is wrong on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the recorded verdict of:enginebay.VerdictWarning")

HOST = socket.gethostname()

OWN = """\
import os
from pathlib import Path


class Sum:
    higher_is_better = None

    def __init__(self):
        self.reset()

    def reset(self):
        self.metric_state = {"sum": 0.0}

    def update(self, outputs, target):
        self.merge_state({"sum": float(abs(outputs - target).sum())})

    def merge_state(self, state):
        self.metric_state["sum"] += state["sum"]

    def compute(self):
        return self.metric_state["sum"]


class Deadly(Sum):
    def update(self, outputs, target):
        super().update(outputs, target)
        if target[0, 0] == 150 and Path("deadly").exists():
            Path("deadly").unlink()
            os.kill(os.getpid(), 9)


class Picky(Sum):
    against = "reference"

    def update(self, outputs, target):
        if abs(outputs - target).max() > 1e6:
            raise ValueError("too far")


class Alone(Sum):
    merge_state = property()


class Sets(Sum):
    def reset(self):
        self.metric_state = {"seen": set()}

    def update(self, outputs, target):
        pass
"""

DATA = """\
import numpy as np
read = dict(np.load("data.npz"))
def items():
    yield from ({"x": x, "target": target} for x, target in zip(read["x"], read["target"]))
"""


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    """Start one worker, so that the order of the tasks is the same each time."""
    with local_executor(1) as started:
        yield started


@pytest.fixture(autouse=True)
def _files(here: Path) -> None:
    """Write a new ``data.npz`` with 200 items of any magnitude, and metrics."""
    (here / "data.npz").unlink()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1, 4)) * 10.0 ** rng.integers(-6, 7, (200, 1, 4))
    target = rng.normal(size=(200, 1, 3)) * 10.0 ** rng.integers(-6, 7, (200, 1, 3))
    target[:, 0, 0] = np.arange(200)
    np.savez(here / "data.npz", x=x.astype(np.float32), target=target.astype(np.float32))
    (here / "own.py").write_text(OWN)
    (here / "items.py").write_text(DATA)


def evaluate_both(
    output: str, executor: Any = None, data: Any = "data.npz", **given: Any
) -> Evaluation:
    metrics = given.pop("metrics", "own.py:Sum")
    return lab.evaluate(
        *(["good", "bad"], data, metrics), output=output, resume=True, executor=executor, **given
    )


def test_an_executor_and_one_process_find_equal_rows(executor: Executor) -> None:
    given: Any = {
        "metrics": ["own.py:Sum", "own.py:Picky", "mean-absolute-error", "cosine"],
        "model": "net.py:build",
    }
    whole = evaluate_both("whole.jsonl", **given)
    assert "raised ValueError on item" in whole.rows[5].error
    assert evaluate_both("parts.jsonl", executor, **given) == whole
    assert evaluate_both("parts.jsonl", executor, **given) == whole  # its rows are there


def test_two_workers_and_one_process_take_the_same_items() -> None:
    with ThreadPoolExecutor(2) as pool:
        some = evaluate_both("pool.jsonl", pool, eb.DataSet("data.npz", take=130, seed=3))
    assert some == evaluate_both("some.jsonl", data=eb.DataSet("data.npz", take=130, seed=3))
    assert some.data.count == len(some.data.indices) == 130


def test_a_data_set_without_a_length_on_an_executor(executor: Executor) -> None:
    parts = evaluate_both("parts.jsonl", executor, "items.py:items")
    whole = evaluate_both("whole.jsonl", data="items.py:items")
    assert parts == whole
    assert whole.rows[0].count == 200


@pytest.mark.slow
@pytest.mark.parametrize("again", ["executor", "one process"])
def test_a_killed_worker_fails_the_evaluation_and_resume_finishes_it(
    here: Path, executor: Executor, again: str
) -> None:
    (here / "deadly").touch()
    with pytest.raises(EnginebayError) as caught:
        evaluate_both("rows.jsonl", executor, metrics="own.py:Deadly")
    assert str(caught.value) == (
        f"items 128 to 191 of 'data.npz' were not evaluated on {HOST}: "
        "its process ended with SIGKILL"
    )
    assert caught.value.hint == "continue with --resume"
    assert not (here / "deadly").exists()
    seen: list[str] = []
    resumed = evaluate_both(
        *("rows.jsonl", executor if again == "executor" else None),
        metrics="own.py:Deadly",
        watch=lambda step: seen.append(step.detail),
    )
    details = [int(detail.split()[0]) for detail in seen if detail]
    assert min(details) >= 128, "what was done before was not done again"
    assert not list(here.glob("*.part"))
    assert resumed == evaluate_both("whole.jsonl", metrics="own.py:Deadly")


def test_objects_without_a_name_are_refused_on_an_executor(here: Path, executor: Executor) -> None:
    import torch

    def refused(**given: Any) -> tuple[str, str | None]:
        with pytest.raises(UsageError) as caught:
            evaluate_both("rows.jsonl", executor, **given)
        return str(caught.value), caught.value.hint

    hint = "pass a string, as on the command line: "
    unnamed = "cannot be sent to an executor's workers"
    assert refused(model=torch.nn.Linear(4, 3)) == (
        f"the model, of type Linear, {unnamed}",
        f"{hint}net.py:build",
    )
    assert refused(data=[({"x": np.zeros((1, 4), np.float32)}, 0)]) == (
        f"the list given as data {unnamed}",
        f"{hint}data.npz, a folder, or file.py:attr",
    )
    (source,) = find_metrics("accuracy")
    assert refused(metrics=["own.py:Sum", source.build()]) == (
        f"a metric, of type TopK, {unnamed}",
        f"{hint}file.py:attr",
    )
    assert refused(metrics="own.py:Alone") == (
        (
            "metric 'own.py:Alone' cannot be evaluated on an executor, since its states cannot be "
            "merged: it has no 'merge_state'"
        ),
        "evaluate without an executor, or define metric_state and merge_state(state)",
    )
    assert not (here / "rows.jsonl").exists()
    assert refused(metrics="own.py:Sets") == (
        (
            "the state of a metric cannot be sent to the client: a set cannot be encoded as "
            "MessagePack"
        ),
        "metric_state must be a dict of numbers, arrays, and lists of these",
    )


def test_items_that_do_not_fit_are_named_as_in_one_process(executor: Executor) -> None:
    np.savez("bad.npz", x=np.full((100, 1, 4), np.nan, np.float32), target=np.zeros((100, 1, 3)))
    np.savez("none.npz", x=np.zeros((0, 1, 4), np.float32))
    with pytest.raises(InputError) as caught:
        evaluate_both("rows.jsonl", executor, "bad.npz")
    assert str(caught.value) == "item 0 of 'bad.npz': input 'x' contains NaN at [0, 0]"
    with pytest.raises(InputError, match=r"^'none\.npz' contains no items$"):
        evaluate_both("rows.jsonl", executor, "none.npz")


def test_a_model_with_different_weights_in_each_process_is_refused(
    here: Path, executor: Executor
) -> None:
    net = (here / "net.py").read_text()
    (here / "net.py").unlink()
    (here / "net.py").write_text(net.replace("torch.manual_seed(0)", "torch.seed()"))
    with pytest.raises(ModelError) as caught:
        evaluate_both("rows.jsonl", executor, model="net.py:build")
    assert str(caught.value) == (
        f"the weights or the source file of the model on {HOST} differ from those on other workers"
    )


def test_a_worker_with_different_files_is_refused(here: Path) -> None:
    import torch

    run = EvaluationRun(open_subjects(["good"]), find_metrics("cosine"), eb.DataSet("data.npz"))
    job = describe_job(run, "cosine", "net.py:build", 60.0)
    assert sorted(job.files) == ["data.npz", "net.py:build"]
    assert job.threads == torch.get_num_threads()  # with others, PyTorch's last digits differ

    def failure(**changed: Any) -> Any:
        other = msgspec.structs.replace(job, **changed)
        with pytest.raises(EnginebayError) as caught:
            evaluate_task(msgspec.msgpack.encode(ShardTask(other, 0, 64)))
        return caught.value

    nowhere = failure(folder="/nowhere")
    assert str(nowhere) == f"folder '/nowhere' does not exist (on {HOST})"
    assert (
        nowhere.hint
        == "start the workers where the files exist, or copy the files to these machines"
    )
    assert str(failure(files={"nothing.npz": "1"})) == (
        f"'nothing.npz' does not exist in '{here}' (on {HOST})"
    )
    assert str(failure(files={"data.npz": "1"})) == (
        f"'data.npz' differs from the file that the evaluation started with (on {HOST})"
    )
    assert str(failure(artifacts={"good": "1"})) == (
        f"'good' differs from the artifact that the evaluation started with (on {HOST})"
    )
    missing = failure(artifacts={"missing": "1"})
    assert str(missing).startswith('"missing" does not exist: expected the directory')
    assert type(missing) is ArtifactError


def test_the_command(here: Path, cli: RunCommand) -> None:
    words = ("evaluate", "good", "--data", "data.npz", "--metric", "mean-absolute-error")
    alone = cli(*words)
    shared = cli(*words, "--workers", "1")
    assert (shared.code, shared.out) == (0, alone.out)
    ran = cli(*words, "--workers", "0")
    assert (ran.code, ran.err) == (2, "error: --workers is 0, expected 1 or more\n")
    ran = cli(*words, "--workers", "1", "--scheduler", "tcp://127.0.0.1:1")
    assert (ran.code, ran.err) == (
        2,
        (
            "error: --workers and --scheduler cannot be combined: a scheduler has its own workers\n"
            "hint: remove one of them\n"
        ),
    )
