"""What the tests of all packages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tests.fork_server import fork_server, no_forks

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

#: The same examples each time: a change is not to blame for what chance finds on its day.
settings.register_profile("default", max_examples=25, derandomize=True, deadline=None)
settings.register_profile("full", max_examples=200, deadline=None)
settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def _fork_server() -> Iterator[None]:
    """Start processes in milliseconds."""
    with fork_server():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Spawn the processes of tests that are about how a process starts, or ends."""
    if not _is_about_processes(item):
        return (yield)
    with no_forks():
        return (yield)


def _is_about_processes(item: pytest.Item) -> bool:
    """Return True for a test with the mark, and for the laws of the kit about processes."""
    module = getattr(getattr(item, "function", None), "__module__", "")
    if module.startswith("enginebay.testing.conformance."):
        return "import" in item.name or module.endswith(".processes")
    return item.get_closest_marker("process") is not None
