"""The machine that figures were measured on."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay import __version__
from enginebay_lab.resources import count_cores

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Environment variables that change how many threads an engine has, or how long they spin.
_THREADS = (
    *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT"),
    *("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine, and how busy it was.

    Attributes:
        processor: The processor's own name.
        cores: How many of them this process may use.
        system: The operating system and its version.
        python: The interpreter's version.
        enginebay: Enginebay's version; an engine's own is in its row's receipt.
        environment: Those variables that are set of the ones that change engines' threads.
        load: Processes that wanted to run, on average of the minute before; None where the
            system does not say.
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
        """True where something else has half a core or more for each core that there is."""
        return self.load is not None and self.load >= self.cores / 2

    def facts(self) -> Iterator[tuple[str, str]]:
        """What stays true of it, for a reader: ``("processor", "… , 8 cores")`` and so on."""
        yield "processor", f"{self.processor}, {self.cores} cores"
        yield "system", self.system
        yield "Python", self.python
        for name, value in self.environment.items():
            yield "environment", f"{name}={value}"


def this_machine() -> Machine:
    """Describe this machine, now."""
    return Machine(
        processor=_processor(),
        cores=count_cores(),
        system=platform.platform(),
        python=platform.python_version(),
        enginebay=__version__,
        environment={name: os.environ[name] for name in _THREADS if name in os.environ},
        load=_load(),
    )


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
