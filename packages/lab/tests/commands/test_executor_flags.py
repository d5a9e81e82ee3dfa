"""``--workers`` and ``--scheduler``: which executor they open, and what is refused."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import Executor

import pytest

from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError, UsageError
from enginebay_lab.commands.executor_flags import add_executor_flags, open_executor


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_executor_flags(parser, "the sweep", "1")
    return parser.parse_args(words)


def test_without_a_flag_there_is_no_executor() -> None:
    with open_executor(parse()) as executor:
        assert executor is None


def test_workers_are_an_executor_of_this_machine() -> None:
    with open_executor(parse("--workers", "3")) as executor:
        assert isinstance(executor, Executor)
        assert [future.result() for future in [executor.submit(abs, -n) for n in (1, 2)]] == [1, 2]
    with pytest.raises(RuntimeError):  # it ends with the block
        executor.submit(abs, 1)


@pytest.mark.parametrize("count", ["0", "-1"])
def test_at_least_one_worker_is_needed(count: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_executor(parse(f"--workers={count}"))
    assert str(caught.value) == f"--workers is {count}, expected 1 or more"


def test_a_scheduler_has_its_own_workers() -> None:
    with pytest.raises(UsageError) as caught:
        open_executor(parse("--workers", "2", "--scheduler", "tcp://127.0.0.1:1"))
    assert str(caught.value) == (
        "--workers and --scheduler cannot be combined: a scheduler has its own workers"
    )
    assert caught.value.hint == "remove one of them"


def test_a_scheduler_requires_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingDependencyError) as caught,
        open_executor(parse("--scheduler", "tcp://127.0.0.1:1")),
    ):
        pass
    assert caught.value.hint == install_command("enginebay-lab[dask]")


def test_the_help_names_the_work_and_the_default() -> None:
    parser = argparse.ArgumentParser()
    add_executor_flags(parser, "the evaluation", "as cores allow")
    text = " ".join(parser.format_help().split())
    assert "run the evaluation in N processes at once on this machine" in text
    assert "(default: as cores allow)" in text
