"""Measurement: how fast artifacts are here, side by side, and how far the figures can be trusted.

Each contestant is loaded in a child process of its own. They take turns in short windows, and
sleep while another one runs, so that whatever slows the machine slows all of them alike. Windows
follow one another until their medians agree, or the time is up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.measurement.contestant import Entry, artifact_entry, torch_entry
    from enginebay.measurement.heat import Heat
    from enginebay.measurement.journal import Journal
    from enginebay.measurement.machine import Machine, this_machine
    from enginebay.measurement.rows import (
        Agreement,
        Benchmark,
        BenchmarkRow,
        Layer,
        Ratio,
        Window,
    )
    from enginebay.measurement.statistics import agreement, ratio

__all__ = [
    "Agreement",
    "Benchmark",
    "BenchmarkRow",
    "Entry",
    "Heat",
    "Journal",
    "Layer",
    "Machine",
    "Ratio",
    "Window",
    "agreement",
    "artifact_entry",
    "ratio",
    "this_machine",
    "torch_entry",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Agreement": "measurement.rows",
        "Benchmark": "measurement.rows",
        "BenchmarkRow": "measurement.rows",
        "Entry": "measurement.contestant",
        "Heat": "measurement.heat",
        "Journal": "measurement.journal",
        "Layer": "measurement.rows",
        "Machine": "measurement.machine",
        "Ratio": "measurement.rows",
        "Window": "measurement.rows",
        "agreement": "measurement.statistics",
        "artifact_entry": "measurement.contestant",
        "ratio": "measurement.statistics",
        "this_machine": "measurement.machine",
        "torch_entry": "measurement.contestant",
    },
)
