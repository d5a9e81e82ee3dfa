"""The cores and the memory that this process may use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from enginebay_lab import resources

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the limits of a container."""
    monkeypatch.setattr(resources, "_CGROUP", tmp_path)
    return tmp_path


def limit(folder: Path, largest: str, used: str) -> int | None:
    (folder / "memory.max").write_text(largest)
    (folder / "memory.current").write_text(used)
    return resources.free_memory()


def test_the_limit_of_a_container_counts_if_it_is_smaller(container: Path) -> None:
    machine = resources.free_memory()
    assert machine is None or machine > 2**20
    assert limit(container, "1048576\n", "48576\n") == 1_000_000
    assert limit(container, "1000\n", "5000\n") == 0  # more is used than allowed
    assert limit(container, "max\n", "5000\n") is None or machine is not None
    assert (limit(container, "max\n", "1\n") is None) == (machine is None)
    huge = limit(container, f"{2**60}\n", "0\n")
    assert huge == 2**60 or (machine is not None and huge is not None and huge < 2**60)


def test_an_empty_limit_is_no_limit(container: Path) -> None:
    assert (limit(container, "", "") is None) == (
        resources._read_kilobytes("/proc/meminfo", "MemAvailable") is None
    )


def test_sizes_in_proc_are_read_in_bytes(tmp_path: Path) -> None:
    file = tmp_path / "status"
    file.write_text("Name:\tpython\nVmRSSx:\t9 kB\nVmRSS:\t  5120 kB\n")
    read = resources._read_kilobytes
    assert read(str(file), "VmRSS") == 5120 * 1024
    assert read(str(file), "VmHWM") is None
    assert read(str(tmp_path / "missing"), "VmRSS") is None


def test_the_peak_is_at_least_what_is_resident() -> None:
    ballast = np.ones(2**23, np.uint8)
    resident = resources.resident_memory()
    assert resident is None or ballast.nbytes < resident <= resources.peak_memory()


def test_the_host_is_that_of_this_process() -> None:
    assert resources.host_name() == os.uname().nodename
