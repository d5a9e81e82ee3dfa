"""What a sweep notes about the machines of its rows."""

from __future__ import annotations

from enginebay_lab.sweeps.run_sweep import _version_notes
from enginebay_lab.sweeps.sweep_rows import SweepRow


def _row(host: str, **versions: str) -> SweepRow:
    return SweepRow(
        key=host,
        model="net.py:build",
        backend="ncnn",
        precision="fp32",
        verdict="verified",
        host=host,
        versions=versions,
    )


def test_a_distribution_in_two_versions_names_its_machines() -> None:
    rows = [
        _row("ann", ncnn="1.0", torch="2.13"),
        _row("bob", ncnn="1.1", torch="2.13"),
        _row("eve", ncnn="1.1", torch="2.13"),
    ]
    assert list(_version_notes(rows)) == ["ncnn is 1.0 on ann and 1.1 on bob, eve"]
    assert list(_version_notes(rows[1:])) == []
