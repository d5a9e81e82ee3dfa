"""How long each kernel took, kept for later builds on the same device with the same TensorRT."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from enginebay_tensorrt.bindings import trt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_tensorrt.cuda import Device


def cache_file(folder: str, device: Device) -> Path:
    """The file for a device: measurements of one are worth nothing on another."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", device.name).strip("-").lower()
    return Path(folder) / f"{name}-sm{device.compute_capability}-{trt.__version__}.timing"


@contextmanager
def timing_cache(config: Any, file: Path | None) -> Iterator[None]:
    """Give a build what was measured before, and keep what it measures in the ``with`` block.

    Another build may have written in the meantime, so what it measured is merged in, under a lock.
    A cache that TensorRT refuses (of another version, damaged) is written anew.

    Args:
        config: The ``IBuilderConfig``.
        file: Where measurements are kept; None keeps none.
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
