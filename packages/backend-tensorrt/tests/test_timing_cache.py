"""Measured kernels are stored for later builds; builds at the same time lose none.

TensorRT for RTX has the calls, and they do nothing; a stand-in for TensorRT's takes their place,
whose cache is lines of text.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, TimeoutError as TooLong
from pathlib import Path
from typing import Any

import pytest

from enginebay.authors.files import lock_file
from enginebay_tensorrt.cuda import Device
from enginebay_tensorrt.timing_cache import locate_cache_file, use_timing_cache


class Cache:
    """``ITimingCache``."""

    def __init__(self, lines: set[str]) -> None:
        self.lines = lines

    def combine(self, input_cache: Cache, ignore_mismatch: bool) -> bool:
        assert ignore_mismatch is False
        self.lines |= input_cache.lines
        return True

    def serialize(self) -> bytes:
        return "\n".join(sorted(self.lines)).encode()


class Config:
    """``IBuilderConfig``, as far as it is about the cache."""

    def create_timing_cache(self, serialized_timing_cache: bytes) -> Cache | None:
        if serialized_timing_cache.startswith(b"damaged"):
            return None
        return Cache(set(filter(None, serialized_timing_cache.decode().split("\n"))))

    def set_timing_cache(self, cache: Cache, ignore_mismatch: bool) -> bool:
        assert ignore_mismatch is False
        self.cache = cache
        return True


def build(file: Path, *measured: str) -> None:
    """Measure kernels, as a build does."""
    config = Config()
    with use_timing_cache(config, file):
        config.cache.lines.update(measured)


def test_each_device_and_version_has_a_file(tmp_path: Path) -> None:
    device = Device(1, "NVIDIA Fake 2", "8.9", "13.0")
    file = locate_cache_file(str(tmp_path), device, "11.4.0")
    assert file == tmp_path / "nvidia-fake-2-sm8.9-11.4.0.timing"


def test_timings_are_added_to_the_cache(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "a.timing"
    build(file, "conv 1 ms")
    build(file, "gemm 2 ms")
    assert file.read_text() == "conv 1 ms\ngemm 2 ms"
    file.write_bytes(b"damaged")
    build(file, "gemm 2 ms")
    assert file.read_text() == "gemm 2 ms"


def test_timings_of_a_concurrent_build_are_merged(tmp_path: Path) -> None:
    config: Any = Config()
    with use_timing_cache(config, tmp_path / "a.timing"):
        build(tmp_path / "a.timing", "gemm 2 ms")  # the cache was read, and is not written yet
        config.cache.lines.add("conv 1 ms")
    assert (tmp_path / "a.timing").read_text() == "conv 1 ms\ngemm 2 ms"


def test_one_build_writes_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "a.timing"
    with ThreadPoolExecutor(1) as pool:
        with lock_file(tmp_path / "a.timing.lock"):
            building = pool.submit(build, file, "conv 1 ms")
            with pytest.raises(TooLong):
                building.result(timeout=1)
            assert not file.exists()
        building.result()
    assert file.read_text() == "conv 1 ms"


def test_concurrent_builds_lose_no_timings(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from test_timing_cache import build\n"
        "build(Path(sys.argv[1]), 'kernel ' + sys.argv[2])"
    )
    file = tmp_path / "a.timing"
    children = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, file, str(number)],
            cwd=Path(__file__).parent,
        )
        for number in range(4)
    ]
    assert [child.wait() for child in children] == [0] * 4
    assert file.read_text().split("\n") == [f"kernel {number}" for number in range(4)]


def test_a_failed_build_saves_no_timings(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), use_timing_cache(Config(), tmp_path / "a.timing"):
        raise KeyboardInterrupt
    assert not (tmp_path / "a.timing").exists()
