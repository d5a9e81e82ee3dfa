"""``sweep``: one row for each cell, whatever executors and interruptions do."""

from __future__ import annotations

import random
from concurrent.futures import Executor, Future
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, strategies as st

import enginebay_lab as lab
from enginebay import __version__
from enginebay.errors import ConfigError, UsageError
from enginebay_lab.executors.tasks import ExecutorTask, TaskOutcome
from enginebay_lab.sweeps.cell_job import CellJob, encode_message
from enginebay_lab.sweeps.rows_file import ROWS_FILE, read_rows
from enginebay_lab.sweeps.sweep_rows import SweepRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NET = "def build(): ...\n"


class Refusing(Executor):
    """An executor that accepts no task, as after its end."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("closed")


class Replies(Executor):
    """An executor whose workers reply with these verdicts, in any order.

    Attributes:
        sent: The keys of the cells that were sent.
    """

    def __init__(self, verdicts: Mapping[str, str] | None = None, seed: int = 0) -> None:
        self._verdicts = verdicts or {}
        self._chance = random.Random(seed)
        self._waiting: list[tuple[Future[bytes], bytes]] = []
        self.sent: list[str] = []

    def submit(self, function: Any, order: bytes, /, **_: Any) -> Any:  # type: ignore[override]
        version, _, task = msgspec.msgpack.decode(order, type=tuple[str, str, ExecutorTask])
        assert version == __version__
        self.sent.append(task.key)
        job = msgspec.msgpack.decode(task.data, type=CellJob)
        verdict = self._verdicts.get(task.key, "verified")
        row = msgspec.structs.replace(
            SweepRow.of(job.cell, verdict),
            files=job.files_digest,
            fault="disk" if verdict == "lost" else "",
            host="ann",
        )
        future: Future[bytes] = Future()
        outcome = TaskOutcome(value=encode_message(row), host="ann")
        self._waiting.append((future, msgspec.msgpack.encode(outcome)))
        if len(self._waiting) == 1:
            Timer(0.02, self._reply_to_all).start()
        return future

    def _reply_to_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._chance.shuffle(waiting)
        for future, reply in waiting:
            future.set_result(reply)


@pytest.fixture
def cells(here: Path, loopback: str) -> list[lab.Cell]:
    """Four cells of a model that no test runs."""
    Path("net.py").write_text(NET)
    return [lab.Cell(model="net.py:build", backend=loopback, seed=seed) for seed in range(4)]


def test_an_executor_that_accepts_nothing_loses_each_cell(cells: list[lab.Cell]) -> None:
    swept = lab.sweep(cells, Refusing())
    assert [row.key for row in swept.rows] == [cell.key for cell in cells]
    assert {(row.verdict, row.fault, row.reason) for row in swept.rows} == {
        ("lost", "worker died", "the executor accepts no more tasks: RuntimeError: closed")
    }


def test_rows_are_in_the_order_of_the_cells(cells: list[lab.Cell]) -> None:
    for seed in range(5):
        executor = Replies(seed=seed)
        swept = lab.sweep(cells, executor)
        assert [row.key for row in swept.rows] == [cell.key for cell in cells]
        assert executor.sent == [cell.key for cell in cells]


def test_equal_cells_in_a_list_are_refused(cells: list[lab.Cell]) -> None:
    executor = Replies()
    with pytest.raises(ConfigError) as caught:
        lab.sweep([*cells, cells[0]], executor)
    assert str(caught.value) == "cells.4: the same combination as cells.0"
    assert caught.value.hint == "remove one of them"
    assert executor.sent == []


verdicts = st.lists(st.sampled_from(["verified", "mismatched", "lost"]), min_size=4, max_size=4)


@given(st.lists(verdicts, min_size=1, max_size=4), st.integers(0, 99))
def test_resume_sends_the_cells_without_a_result_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[str]], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "net.py").write_text(NET)
    cells = [
        lab.Cell(model="net.py:build", backend="loopback", seed=number, folder=str(folder))
        for number in range(4)
    ]
    keys = [cell.key for cell in cells]
    results: dict[str, str] = {}
    for number, listed in enumerate(runs):
        executor = Replies(dict(zip(keys, listed, strict=True)), seed)
        missing = [key for key in keys if results.get(key, "lost") == "lost"]
        swept = lab.sweep(cells, executor, output=folder / "out", resume=number > 0)
        assert executor.sent == missing
        results |= {key: listed[keys.index(key)] for key in missing}
        assert {row.key: row.verdict for row in swept.rows} == results
        rows = read_rows(folder / "out")
        assert sorted(row.key for row in rows) == sorted(keys)
        assert {row.key: row.verdict for row in rows} == results


def test_rows_of_other_cells_stay_in_the_file(cells: list[lab.Cell]) -> None:
    lab.sweep(cells[:2], Replies(), output="out")
    executor = Replies()
    swept = lab.sweep(cells[1:], executor, output="out", resume=True)
    assert executor.sent == [cell.key for cell in cells[2:]]
    assert len(swept.rows) == 3
    assert len(read_rows("out")) == 4


def test_a_changed_file_runs_its_cells_again(cells: list[lab.Cell]) -> None:
    lab.sweep(cells, Replies(), output="out")
    for text, count in ((NET, 0), (f"{NET}# edited\n", 4)):
        Path("net.py").write_text(text)
        executor = Replies()
        lab.sweep(cells, executor, output="out", resume=True)
        assert len(executor.sent) == count


def test_a_cell_whose_file_cannot_be_read_fails_without_a_worker(
    cells: list[lab.Cell], here: Path
) -> None:
    import os

    os.mkfifo(here / "pipe.npz")
    wrong = lab.Cell(model="net.py:build", backend="loopback", data="pipe.npz")
    executor = Replies()
    swept = lab.sweep([wrong, *cells], executor)
    assert (swept.rows[0].verdict, swept.rows[0].fault) == ("failed", "")
    assert swept.rows[0].reason == f"'{here}/pipe.npz' cannot be read: not a regular file"
    assert len(executor.sent) == 4


def test_progress_counts_the_cells(cells: list[lab.Cell]) -> None:
    seen: list[str] = []
    executor = Replies({cells[0].key: "mismatched", cells[1].key: "lost"})

    def watch(step: Any) -> None:
        assert step.name == "sweep"
        seen.append(step.detail)

    lab.sweep(cells, executor, output="out", watch=watch)
    assert seen[-1] == "4 of 4 cells, 2 not verified"
    counts = [int(text.split()[0]) for text in seen if text]
    assert counts == sorted(counts)
    seen.clear()
    lab.sweep(cells, Replies(), output="out", resume=True, watch=watch)
    assert next(text for text in seen if text) == "1 of 4 cells, 1 not verified"
    assert seen[-1] == "4 of 4 cells, 1 not verified"


def test_a_baseline_is_rows_or_their_file(cells: list[lab.Cell]) -> None:
    before = lab.sweep(cells, Replies(), output="before")
    worse = Replies({cells[2].key: "mismatched"})
    label = "net.py:build on loopback: mismatched (verified in the baseline)"
    for baseline in (before.rows, "before", Path("before", ROWS_FILE)):
        swept = lab.sweep(cells, worse, baseline=baseline)
        assert swept.regressions == (label,)
        assert swept.judged == {cell.key for cell in cells}
        assert swept.failures == (label,)
    assert lab.sweep(cells, Replies(), baseline="before").failures == ()


def test_a_missing_cell_is_a_regression_and_a_new_one_a_note(cells: list[lab.Cell]) -> None:
    before = lab.sweep(cells[:1], Replies()).rows
    added = lab.Cell(model="net.py:build", backend="loopback", params={"gain": 2.0})
    swept = lab.sweep([added], Replies(), baseline=before)
    assert swept.regressions == (
        "net.py:build on loopback: not in this sweep (verified in the baseline)",
    )
    assert swept.notes == ("cells that are not in the baseline: net.py:build on loopback gain=2.0",)
    assert swept.judged == frozenset()


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda cells: lab.sweep(cells, resume=True),
            "resume requires the folder of an earlier sweep",
            "name the folder: --output FOLDER",
        ),
        (
            lambda cells: lab.sweep(cells, Replies(), output="net.py"),
            "'net.py' is not a folder",
            "name a different folder",
        ),
        (
            lambda cells: lab.sweep(cells, Replies(), baseline="row.jsonl"),
            "'row.jsonl' does not exist; expected the rows.jsonl of a sweep",
            "did you mean 'rows.jsonl'?",
        ),
        (
            lambda cells: lab.sweep(cells, "workers"),
            "executor: expected a concurrent.futures.Executor, found str",
            None,
        ),
    ],
    ids=["resume", "output", "baseline", "executor"],
)
def test_wrong_arguments_are_refused_before_a_cell_runs(
    cells: list[lab.Cell],
    call: Callable[[list[lab.Cell]], object],
    message: str,
    hint: str | None,
) -> None:
    Path("rows.jsonl").touch()
    with pytest.raises(UsageError) as caught:
        call(cells)
    assert (str(caught.value), caught.value.hint) == (message, hint)
    assert not Path("out").exists()


def test_an_existing_output_is_not_swept_again_without_resume(cells: list[lab.Cell]) -> None:
    lab.sweep(cells[:1], Replies(), output="out")
    before = Path("out", ROWS_FILE).read_bytes()
    executor = Replies()
    with pytest.raises(UsageError, match=r"'out/rows\.jsonl' already exists"):
        lab.sweep(cells, executor, output="out")
    assert executor.sent == []
    assert Path("out", ROWS_FILE).read_bytes() == before
