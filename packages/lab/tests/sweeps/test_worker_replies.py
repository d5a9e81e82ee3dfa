"""Replies of workers, which are not trusted: rows, and artifacts that move to their folders."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, strategies as st

import enginebay as eb
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
from enginebay_lab.resources import host_name
from enginebay_lab.sweeps.cell_job import encode_message
from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.faults import lost_row
from enginebay_lab.sweeps.sweep_rows import SweepRow
from enginebay_lab.sweeps.worker_replies import artifact_folder_name, receive_row

if TYPE_CHECKING:
    from collections.abc import Callable

CELL = Cell(model="net.py:build", backend="loopback", params={"gain": 1.0}, max_drop=0.5)
NET = """\
import torch

def build():
    return torch.nn.Linear(2, 2), torch.ones(1, 2)
"""
change = msgspec.structs.replace


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, loopback: str) -> Path:
    """An artifact of the loopback backend."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "net.py").write_text(NET)
    eb.deploy(
        f"{folder}/net.py:build",
        backend=loopback,
        work_dir=folder / "artifact",
        export={"exporter": "torchscript"},
        verify={"probes": 0, "allow_unverified": True},
    )
    return folder / "artifact"


@pytest.fixture
def reply(made: Path, tmp_path: Path) -> Callable[..., bytes]:
    """Builds an artifact where a worker does, and returns the worker's reply about it."""

    def build(cell: Cell = CELL, **fields: Any) -> bytes:
        attempt = tmp_path / "out/artifacts/.attempts/sweep" / f"{cell.key}-5eed/loopback"
        shutil.copytree(made, attempt)
        digest = eb.open_artifact(attempt).digest
        speed = BenchmarkRow(
            name=str(attempt), artifact=str(attempt), backend="loopback", batch=1, threads=1
        )
        row = change(
            SweepRow.of(cell, "verified"), artifact=str(attempt), digest=digest, speed=speed
        )
        return encode_message(change(row, **fields))

    return build


def test_the_artifact_moves_to_its_folder_and_the_row_names_it(
    reply: Callable[..., bytes], tmp_path: Path
) -> None:
    row = receive_row(CELL, reply(), tmp_path / "out")
    folder = tmp_path / "out/artifacts" / artifact_folder_name(CELL)
    assert (row.verdict, row.fault, row.artifact) == ("verified", "", str(folder))
    assert row.speed
    assert (row.speed.name, row.speed.artifact) == (str(folder), str(folder))
    assert eb.open_artifact(folder).digest == row.digest
    assert not list((tmp_path / "out/artifacts/.attempts/sweep").iterdir())


def test_a_second_run_of_a_cell_replaces_its_artifact(
    reply: Callable[..., bytes], tmp_path: Path
) -> None:
    for _ in range(2):
        row = receive_row(CELL, reply(), tmp_path / "out")
        assert row.verdict == "verified"
    assert [path.name for path in (tmp_path / "out/artifacts").glob("[!.]*")] == [
        artifact_folder_name(CELL)
    ]


def test_without_an_output_the_row_names_no_artifact(reply: Callable[..., bytes]) -> None:
    row = receive_row(CELL, reply(), None)
    assert (row.verdict, row.artifact) == ("verified", None)
    assert row.speed
    assert (row.speed.name, row.speed.artifact) == ("net.py:build on loopback gain=1.0", "")


def test_the_fields_of_the_cell_are_the_cells_own(reply: Callable[..., bytes]) -> None:
    foreign = {"key": "0", "model": "/", "backend": "..", "params": {"a": 1}, "max_drop": 9.0}
    row = receive_row(CELL, reply(**foreign), None)
    assert (row.key, row.model, row.backend) == (CELL.key, "net.py:build", "loopback")
    assert (row.params, row.max_drop) == ({"gain": 1.0}, 0.5)


def test_the_precision_is_that_of_the_worker(reply: Callable[..., bytes]) -> None:
    assert receive_row(CELL, reply(precision="fp32"), None).precision == "fp32"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("file", "is truncated: expected 346 bytes, found 5"),
        ("manifest", "is not an Enginebay manifest"),
        ("digest", "is a different artifact"),
        ("gone", "does not exist"),
    ],
)
def test_an_artifact_that_was_damaged_in_transfer_is_lost(
    reply: Callable[..., bytes], tmp_path: Path, damage: str, reason: str
) -> None:
    data = reply(**({"digest": "0" * 64} if damage == "digest" else {}))
    (attempt,) = tmp_path.glob("out/artifacts/.attempts/*/*/loopback")
    if damage == "file":
        (attempt / "model.onnx").write_bytes(b"other")
    elif damage == "manifest":
        (attempt / "manifest.json").write_text("{")
    elif damage == "gone":
        shutil.rmtree(attempt)
    row = receive_row(CELL, data, tmp_path / "out")
    assert (row.verdict, row.fault, row.artifact, row.digest) == ("lost", "damaged", None, "")
    assert reason in row.reason
    assert row.hint == "sweep again with --resume"
    assert not (tmp_path / "out/artifacts" / artifact_folder_name(CELL)).exists()


def test_a_folder_with_other_files_is_not_replaced(
    reply: Callable[..., bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "out/artifacts" / artifact_folder_name(CELL)
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    row = receive_row(CELL, reply(), tmp_path / "out")
    assert (row.verdict, row.fault) == ("lost", "disk")
    assert row.reason.startswith(f"on {host_name()}: ")
    assert row.hint == "move the folder away, then sweep again with --resume"
    assert (folder / "notes.txt").read_text() == "mine"


@given(st.binary(max_size=40))
def test_bytes_that_are_no_row_are_a_damaged_cell(data: bytes) -> None:
    row = receive_row(CELL, data, None)
    assert (row.key, row.verdict, row.fault) == (CELL.key, "lost", "damaged")
    assert row.reason.startswith("the worker's reply is not a row: ")


@pytest.mark.parametrize(
    ("model", "precision", "name"),
    [
        ("net.py:build", "", "net.py-build-on-loopback"),
        ("/deep/er/net.py:build", "fp16", "net.py-build-on-loopback-fp16"),
        ("timm:resnet18.a1_in1k", "", "timm-resnet18.a1_in1k-on-loopback"),
        ("..", "", "on-loopback"),
        ("a" * 300, "", "a" * 50),
        ("ünï/çødé.py:x", "", "çødé.py-x-on-loopback"),
        (" ;rm -rf *", "", "rm-rf-on-loopback"),
    ],
)
def test_names_of_folders_are_readable_and_short(model: str, precision: str, name: str) -> None:
    cell = Cell(model=model, backend="loopback", precision=precision)
    assert artifact_folder_name(cell) == f"{name}-{cell.key}"


@given(st.text(min_size=1), st.text(), st.text())
def test_the_name_of_a_folder_is_one_path_component(model: str, backend: str, name: str) -> None:
    try:
        cell = Cell(model=model, backend=backend, precision=name)
        folder = artifact_folder_name(cell)
    except UnicodeEncodeError:  # read_cells() refuses it
        return
    assert Path("a", folder).parent == Path("a")
    assert folder not in {".", ".."}
    assert not folder.startswith(".")
    assert len(folder.encode()) < 255


def test_a_lost_row_keeps_what_is_known_about_the_machine() -> None:
    row = change(SweepRow.of(CELL, "verified"), host="ann", artifact="a", digest="d", seconds=2.0)
    lost = lost_row(row, "disk", "it is full", "free space")
    assert (lost.verdict, lost.fault, lost.reason, lost.hint) == (
        *("lost", "disk"),
        *("it is full", "free space"),
    )
    assert (lost.artifact, lost.digest) == (None, "")
    assert (lost.host, lost.seconds, lost.key) == ("ann", 2.0, CELL.key)
