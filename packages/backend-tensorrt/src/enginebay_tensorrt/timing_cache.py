"""Cache the timings of kernels for later builds on the same device with the same TensorRT."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors.files import lock_file, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    import tensorrt as trt

    from enginebay_tensorrt.cuda import Device


def locate_cache_file(folder: str, device: Device, version: str) -> Path:
    """Return the path of the cache file for a device and a version of TensorRT."""
    # Timings of one device or version are useless for another.
    name = re.sub(r"[^A-Za-z0-9]+", "-", device.name).strip("-").lower()
    return Path(folder) / f"{name}-sm{device.compute_capability}-{version}.timing"


@contextmanager
def use_timing_cache(config: trt.IBuilderConfig, file: Path | None) -> Iterator[None]:
    """Load cached timings for a build, and save the build's timings after the ``with`` block.

    If the block raises an exception, nothing is saved. Timings that another build saved in the
    meantime are merged under a lock. TensorRT rejects a file that is damaged or of another version;
    such a file is replaced.

    Args:
        config: The builder's configuration.
        file: The cache file; None disables the cache.
    """
    if file is None:
        yield
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    cache = config.create_timing_cache(_read_cache(file))
    # A mismatch is a cache of another device or version.
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
        cache = config.create_timing_cache(b"")
        config.set_timing_cache(cache, ignore_mismatch=False)
    yield  # not in a try block: a build that fails saves no timings
    with lock_file(file.with_name(f"{file.name}.lock")):
        others = config.create_timing_cache(_read_cache(file))
        if others is not None:
            cache.combine(others, ignore_mismatch=False)
        # An atomic replacement: other builds read the file without a lock.
        write_whole(file, bytes(memoryview(cache.serialize())))


def _read_cache(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
