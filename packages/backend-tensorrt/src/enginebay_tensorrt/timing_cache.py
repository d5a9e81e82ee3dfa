"""Measured kernel times, kept for later builds on the same device with the same TensorRT."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_tensorrt.cuda import Device


def cache_file(folder: str, device: Device, version: str) -> Path:
    """Return the file for a device and a version of TensorRT."""
    # Measurements of one device or version are worth nothing on another.
    name = re.sub(r"[^A-Za-z0-9]+", "-", device.name).strip("-").lower()
    return Path(folder) / f"{name}-sm{device.compute_capability}-{version}.timing"


@contextmanager
def timing_cache(config: Any, file: Path | None) -> Iterator[None]:
    """Load earlier measurements for a build, and save its own when the ``with`` block ends.

    Measurements that another build saved in the meantime are merged in, under a lock. A cache that
    TensorRT refuses (of another version, damaged) is written anew.

    Args:
        config: The ``IBuilderConfig``.
        file: The cache; None keeps no measurements.
    """
    if file is None:
        yield
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    cache = config.create_timing_cache(_read(file))
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
        cache = config.create_timing_cache(b"")
        config.set_timing_cache(cache, ignore_mismatch=False)
    yield
    with FileLock(f"{file}.lock"):
        others = config.create_timing_cache(_read(file))
        if others is not None:
            cache.combine(others, ignore_mismatch=False)
        unfinished = file.with_name(f"{file.name}.{os.getpid()}")
        unfinished.write_bytes(memoryview(cache.serialize()))
        unfinished.replace(file)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
