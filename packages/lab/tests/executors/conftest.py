"""The module whose functions the tasks call, and an end of all child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packages.lab.tests.executors.work_tasks import MODULE, child_processes

from enginebay_lab.executors import child_pool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psutil


@pytest.fixture(autouse=True)
def _work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    child_pool.end_children()


@pytest.fixture
def before() -> set[psutil.Process]:
    """The child processes of this process, which are the tests' own server of processes."""
    child_pool.call_in_child("work:echo", b"", 600)  # starts the server
    child_pool.end_children()
    return child_processes()
