"""A cell of a sweep as a job: run by a real engine, lost where the machine is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import enginebay as eb
from enginebay.sweeps import Cell, SweepRow, arrived, attempts, job_of, run_cell

if TYPE_CHECKING:
    from pathlib import Path

_NET = """
import torch

def build():
    return torch.nn.Linear(4, 3), torch.ones(1, 4)

def fail():
    raise RuntimeError("no weights")

def exit():
    raise OSError(28, "No space left on device")
"""


@pytest.fixture
def net(tmp_path, monkeypatch) -> Path:
    """A file with models, in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.py"
    path.write_text(_NET)
    return path


def _cell(model: str = "net.py:build", **more: Any) -> Cell:
    return Cell(model=model, backend="onnxruntime", **more)


def _swept(cell: Cell, output: Path | None = None) -> SweepRow:
    """Run a cell from its job to its row."""
    if output is None:
        return arrived(run_cell(job_of(cell, None, "")), None)
    with attempts(output) as token:
        return arrived(run_cell(job_of(cell, output, token)), output)


def _reply_from_elsewhere(cell: Cell, output: Path, *gone: Path) -> bytes:
    """Run a cell where neither the output nor some files are seen."""
    with attempts(output) as token:
        job = job_of(cell, output, token)
        hidden = {path: path.rename(path.with_name(f"hidden {path.name}")) for path in gone}
        aside = output.rename(output.with_name("aside"))
        try:
            return run_cell(job)
        finally:
            aside.rename(output)
            for path, other in hidden.items():
                other.rename(path)


def test_a_row_says_what_was_deployed_and_where(net, tmp_path) -> None:
    cell = _cell(seconds=0.3)
    row = _swept(cell, tmp_path / "out")
    assert (row.verdict, row.fault, row.reason) == ("verified", "", "")
    assert (row.key, row.model, row.precision) == (cell.key, "net.py:build", "fp32")
    assert row.host
    assert row.machine
    assert row.speed
    assert row.speed.call
    assert {"enginebay", "enginebay-onnxruntime", "onnxruntime", "torch"} <= row.versions.keys()
    assert row.environment
    assert row.environment.ok
    assert row.receipt
    assert row.receipt.engine.startswith("onnxruntime")
    folder = tmp_path / f"out/artifacts/net.py-build-on-onnxruntime-fp32-{cell.key}"
    assert (row.artifact, row.speed.artifact) == (str(folder), str(folder))
    assert list((tmp_path / "out/artifacts").iterdir()) == [folder]
    assert eb.open_artifact(folder).digest == row.digest
    assert msgspec.json.decode(msgspec.json.encode(row), type=SweepRow) == row


def test_a_cell_that_runs_again_replaces_its_artifact(net, tmp_path) -> None:
    first = _swept(_cell(), tmp_path / "out")
    second = _swept(_cell(), tmp_path / "out")
    assert first.artifact == second.artifact
    assert second.artifact
    assert eb.open_artifact(second.artifact).digest == second.digest


def test_without_an_output_no_artifact_stays(net) -> None:
    row = _swept(_cell())
    assert (row.verdict, row.artifact) == ("verified", None)
    assert row.digest
    assert row.size


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (_cell("net.py:fail"), "calling 'net.py:fail' raised RuntimeError: no weights"),
        (_cell("net.py:no"), "there is no 'no' in"),
        (_cell("net.py:build", precision="fp3"), "fp3"),
        (_cell("net.py:build", params={"colour": 1}), "'colour' is no parameter of onnxruntime"),
        (_cell("net.py:build", inputs=("input=1xx",)), "input=1xx"),
        (_cell("net.py:build", data="no.npz"), "no data set 'no.npz'"),
    ],
    ids=["raises", "no name", "precision", "parameter", "input", "data"],
)
def test_what_is_wrong_with_a_cell_is_its_reason(net, tmp_path, cell, reason) -> None:
    row = _swept(cell, tmp_path / "out")
    assert (row.verdict, row.fault, row.artifact) == ("failed", "", None)
    assert reason in row.reason
    assert not list((tmp_path / "out/artifacts").iterdir())


def test_a_backend_that_is_not_installed_is_a_fault(net) -> None:
    cell = Cell(model="net.py:build", backend="onnxruntim")
    row = _swept(cell)
    assert (row.verdict, row.fault) == ("lost", "backend")
    assert row.reason.startswith(f"on {row.host}: ")
    assert "onnxruntim" in row.reason
    assert row.hint


def test_files_and_artifacts_travel_where_nothing_is_shared(net, tmp_path) -> None:
    output = tmp_path / "out"
    row = arrived(_reply_from_elsewhere(_cell(), output, net), output)
    assert (row.verdict, row.reason) == ("verified", "")
    assert row.artifact
    assert eb.open_artifact(row.artifact).digest == row.digest
    assert f"'{net}' is not on {row.host}: it came with the job" in row.notes[0]
