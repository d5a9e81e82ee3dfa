"""The description of the machine on which a benchmark runs."""

from __future__ import annotations

import os
import platform

import pytest

import enginebay as eb
from enginebay_lab.measurement.machine import Machine, this_machine


def machine(load: float | None, cores: int = 4, **environment: str) -> Machine:
    return Machine(
        processor="Zen",
        cores=cores,
        system="Linux",
        python="3.12",
        enginebay="0",
        environment=environment,
        load=load,
    )


@pytest.mark.parametrize(
    ("load", "cores", "busy"),
    [(None, 1, False), (0.0, 1, False), (1.9, 4, False), (2.0, 4, True), (0.5, 1, True)],
)
def test_a_machine_is_busy_from_half_of_its_cores(
    load: float | None, cores: int, busy: bool
) -> None:
    assert machine(load, cores).is_busy is busy


def test_facts_name_the_variables_that_change_threads() -> None:
    assert list(machine(1.0, OMP_NUM_THREADS="2").facts()) == [
        ("processor", "Zen, 4 cores"),
        ("system", "Linux"),
        ("Python", "3.12"),
        ("environment", "OMP_NUM_THREADS=2"),
    ]


def test_this_machine_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KMP_BLOCKTIME", "0")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    found = this_machine()
    assert found.processor
    assert found.cores >= 1
    assert (found.python, found.enginebay) == (platform.python_version(), eb.__version__)
    assert found.environment["KMP_BLOCKTIME"] == "0"
    assert "MKL_NUM_THREADS" not in found.environment
    assert found.load is None or found.load >= 0


def test_a_system_without_a_load_average_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError("no load average")

    monkeypatch.setattr(os, "getloadavg", fails)
    found = this_machine()
    assert (found.load, found.is_busy) == (None, False)
