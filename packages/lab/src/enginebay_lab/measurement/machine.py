"""A description of the machine on which a measurement runs."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay import __version__
from enginebay.environment import count_cores

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Environment variables for the number of an engine's threads, and for how long idle threads spin.
_THREADS = (
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "KMP_BLOCKTIME",
    "GOMP_SPINCOUNT",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, and how busy it was before a measurement.

    Attributes:
        processor: The processor's model name.
        cores: The number of cores that this process may use.
        system: The operating system and its version.
        python: The version of Python.
        enginebay: The version of Enginebay.
        environment: The environment variables that are set and affect the threads of engines:
            values by name.
        load: The load average of the last minute; None if the system does not report it.
    """

    processor: str
    cores: int
    system: str
    python: str
    enginebay: str
    environment: dict[str, str] = {}
    load: float | None = None

    @property
    def is_busy(self) -> bool:
        """True if the load average is at least half of the number of cores."""
        return self.load is not None and self.load >= self.cores / 2

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield a label and a text for each property except the load: ``("Python", "3.12.4")``."""
        yield "processor", f"{self.processor}, {self.cores} cores"
        yield "system", self.system
        yield "Python", self.python
        for name, value in self.environment.items():
            yield "environment", f"{name}={value}"


def this_machine() -> Machine:
    """Return a description of this machine, with its current load."""
    return Machine(
        processor=_processor_name(),
        cores=count_cores(),
        system=platform.platform(),
        python=platform.python_version(),
        enginebay=__version__,
        environment={name: os.environ[name] for name in _THREADS if name in os.environ},
        load=_load_average(),
    )


def _processor_name() -> str:
    # On Linux, platform.processor() is often empty or only the architecture.
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:  # the system does not report a load average
        return None
