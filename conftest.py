"""What the tests of all packages share: signals, the pace of this machine, quick processes."""

from __future__ import annotations

import contextlib
import gc
import math
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from tests.fork_server import fork_server, no_forks, server_folder
from tests.quick_torch import quicken_torch

import enginebay.cli.progress as progress

if TYPE_CHECKING:
    from collections.abc import Generator

# Torch and its exports leave millions of objects, and with Python's own limits a fifth of the run
# went into looking for garbage among them.
gc.set_threshold(50_000, 20, 20)

# Under nohup, in the background of a shell and under some CI runners signals are ignored, and a
# child process inherits that. A handler is not inherited: children have the default again.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # the test run itself outlives its terminal

#: The same examples each time: a change is not to blame for what chance finds on its day.
settings.register_profile("default", max_examples=12, derandomize=True, deadline=None)
settings.register_profile("full", max_examples=200, deadline=None)
settings.load_profile("default")


#: The folder of the fork server that the processes of pytest-xdist share.
_FOLDER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of the workers' fork server."""
    if _has_workers(config):
        stack = contextlib.ExitStack()
        config.stash[_FOLDER] = stack.enter_context(server_folder())
        config.add_cleanup(stack.close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Name the folder to a worker of pytest-xdist."""
    node.workerinput["fork_server"] = node.config.stash[_FOLDER]


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Start the processes of tests in milliseconds, but not those of pytest-xdist."""
    if _has_workers(session.config):
        return (yield)
    worker = getattr(session.config, "workerinput", {})
    with fork_server(worker.get("fork_server", "")):
        return (yield)


def _has_workers(config: pytest.Config) -> bool:
    option = config.getoption("numprocesses", default=None)
    return bool(option) and not hasattr(config, "workerinput")


def pytest_runtest_setup() -> None:
    """Seed torch, whose random numbers would decide some verdicts; make exports quick.

    What a slow machine prints of long work is no part of what tests compare.
    """
    progress._INTERVAL_SECONDS = 3600.0
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
    quicken_torch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Spawn the processes of tests that are about how a process starts, or ends."""
    if not _is_about_processes(item):
        return (yield)
    with no_forks():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but every Nth case of a test with the mark ``one_in(N)`` to the full run."""
    cases: Counter[tuple[object, str]] = Counter()
    for item in items:
        if marker := item.get_closest_marker("one_in"):
            family = (item.parent, getattr(item, "originalname", ""))
            if cases[family] % marker.args[0]:
                item.add_marker(pytest.mark.slow)
            cases[family] += 1


def _is_about_processes(item: pytest.Item) -> bool:
    """Return True for a test with the mark, and for the laws of the kit about processes."""
    module = getattr(getattr(item, "function", None), "__module__", "")
    if module.startswith("enginebay_testing.conformance."):
        return "import" in item.name or module.endswith(".processes")
    return item.get_closest_marker("process") is not None


@pytest.fixture
def soon() -> int:
    """Whole seconds: ten times what a new process that imports Enginebay takes here and now.

    Limits that a test waits for are made of it. It is measured anew for each test, since the load
    of a machine changes while tests run.
    """
    from enginebay_testing.command_runs import environment

    start = time.monotonic()
    command = [sys.executable, "-c", "import enginebay.isolation"]
    with no_forks():
        subprocess.run(command, env=environment(), check=True)
    return math.ceil(10 * (time.monotonic() - start))
