"""Faults of a machine: the cell is lost, with its fault and a hint."""

from __future__ import annotations

import hashlib
import resource
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.sweeps.cells import cell_of, reply_from_elsewhere, swept

import enginebay as eb
from enginebay.authors.isolation import call
from enginebay.errors import ChildCrashedError, ChildTimeoutError
from enginebay_lab.sweeps.cell_job import encode_message
from enginebay_lab.sweeps.cell_task import run_cell
from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.job_builder import attempts_folder, build_job
from enginebay_lab.sweeps.sweep_rows import SweepRow
from enginebay_lab.sweeps.worker_replies import artifact_folder_name, receive_row

PLAIN = {"key": "a", "model": "m", "backend": "b", "precision": "", "verdict": "verified"}


def test_missing_backend_loses_the_cell(net) -> None:
    cell = Cell(model="net.py:build", backend="onnxruntim")
    row = swept(cell)
    assert (row.verdict, row.fault) == ("lost", "backend")
    assert row.reason.startswith(f"on {row.host}: ")
    assert "onnxruntim" in row.reason
    assert row.hint


def test_different_model_file_on_the_worker_loses_the_cell(net) -> None:
    job = build_job(cell_of(), None, "")
    digest = hashlib.sha256(net.read_bytes()).hexdigest()
    net.write_text("# another model")
    row = receive_row(cell_of(), run_cell(job), None)
    assert (row.verdict, row.fault) == ("lost", "not seen")
    assert row.reason == f"{row.host} has a different file '{net}', expected sha256 {digest}"
    assert row.hint == "put the file on a file system that all machines mount at the same path"


def test_unreadable_data_folder_loses_the_cell(net, tmp_path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    np.savez(data / "0.npz", input=np.ones((1, 4), np.float32))
    cell = cell_of(data="data")
    output = tmp_path / "out"
    row = receive_row(cell, reply_from_elsewhere(cell, output, data), output)
    assert (row.verdict, row.fault, row.artifact) == ("lost", "not seen", None)
    assert row.reason == f"{row.host} cannot read '{data}'"
    assert row.hint == "put the file on a file system that all machines mount at the same path"


def test_reply_cannot_choose_names_or_paths(net, tmp_path) -> None:
    output, cell = tmp_path / "out", cell_of()
    made = eb.deploy(
        "net.py:build",
        work_dir=tmp_path / "mine" / "deep" / "artifact",
        backend="onnxruntime",
        verify=eb.VerifyOptions(probes=0, allow_mismatch=True),
    ).artifact
    with attempts_folder(output) as token:
        row = msgspec.msgpack.decode(run_cell(build_job(cell, output, token)), type=SweepRow)
        built = output / "artifacts" / ".attempts"
        elsewhere = (
            f"{built}/../../../mine/deep/artifact",
            f"{built}/{cell.key}-5eed",
            f"{built}/{token}/other-5eed/artifact",
            str(built),
            str(made.path),
            "../mine/deep/artifact",
            "",
            "\0",
        )
        for name in elsewhere:
            reply = encode_message(msgspec.structs.replace(row, artifact=name, digest=made.digest))
            received = receive_row(cell, reply, output)
            assert (received.verdict, received.fault, received.artifact) == (
                "lost",
                "damaged",
                None,
            )
        assert made.path.is_dir()
        other = encode_message(msgspec.structs.replace(row, digest="0" * 64))
        assert "is a different artifact" in receive_row(cell, other, output).reason
        foreign = {"key": "../../../mine", "backend": "../..", "model": "/", "params": {"a": 1}}
        received = receive_row(
            cell, encode_message(msgspec.structs.replace(row, **foreign)), output
        )
    assert (received.key, received.backend, received.model) == (cell.key, cell.backend, cell.model)
    assert received.artifact == str((output / "artifacts" / artifact_folder_name(cell)).resolve())
    assert eb.open_artifact(received.artifact).digest == row.digest


NESTED = b"\x91" * 100_000 + b"\xc0"


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"key": "a"}),
        msgspec.msgpack.encode({**PLAIN, "verdict": 3}),
        msgspec.msgpack.encode({**PLAIN, "seconds": float("inf")}),
        b"\x81\xa6params\x81\xa1a" + NESTED,
    ],
)
def test_invalid_reply_is_a_damaged_cell(tmp_path, reply) -> None:
    row = receive_row(cell_of(), reply, tmp_path)
    assert (row.key, row.verdict, row.fault) == (cell_of().key, "lost", "damaged")
    assert row.reason.startswith("the worker's reply is not a row: ")
    assert row.hint == "sweep again with --resume"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("model", "limit", "error"),
    [("net.py:crash", 600, ChildCrashedError), ("net.py:hang", 4, ChildTimeoutError)],
)
def test_crash_and_hang_of_a_cell_are_raised_to_the_caller(net, tmp_path, model, limit, error):
    with attempts_folder(tmp_path / "out") as token, pytest.raises(error):
        call(
            "enginebay_lab.sweeps.cell_task:run_cell",
            build_job(cell_of(model), tmp_path / "out", token),
            timeout=limit,
            result_type=bytes,
        )
    assert not list((tmp_path / "out/artifacts").iterdir())


def run_on_a_small_disk(job: bytes) -> bytes:
    """Run a cell with a limit of 100 kB per file; called in a child process."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    return run_cell(job)


def test_full_disk_loses_the_cell(net, tmp_path) -> None:
    row = swept(cell_of("net.py:fill"))
    reason = (
        f"on {row.host}: calling 'net.py:fill' raised OSError: [Errno 28] No space left on device"
    )
    assert (row.verdict, row.fault, row.reason) == ("lost", "disk", reason)
    output = tmp_path / "out"
    with attempts_folder(output) as token:
        cell = cell_of("net.py:large")
        job = build_job(cell, output, token)
        function = "tests.sweeps.test_cell_faults:run_on_a_small_disk"
        row = receive_row(cell, call(function, job, timeout=600, result_type=bytes), output)
    assert (row.verdict, row.fault, row.artifact) == ("lost", "disk", None)
    assert row.reason.startswith(f"on {row.host}: the artifact ")
    assert row.reason.endswith(" cannot be written: File too large")
    assert (
        row.hint == "free disk space, or make the folder writable, then sweep again with --resume"
    )


def test_artifact_removed_before_arrival_is_a_damaged_cell(net, tmp_path) -> None:
    output, cell = tmp_path / "out", cell_of()
    with attempts_folder(output) as token:
        reply = run_cell(build_job(cell, output, token))
    row = receive_row(cell, reply, output)  # the folder of the attempts is gone
    assert (row.verdict, row.fault, row.artifact) == ("lost", "damaged", None)


def test_foreign_files_in_the_artifact_folder_are_not_replaced(net, tmp_path) -> None:
    output = tmp_path / "out"
    first = swept(cell_of(), output)
    assert first.artifact
    notes = Path(first.artifact, "notes.txt")
    notes.write_text("mine")
    row = swept(cell_of(), output)
    assert (row.verdict, row.fault, row.artifact) == ("lost", "disk", None)
    assert row.reason == (
        f'on {row.host}: "{first.artifact}" also contains "notes.txt", which is not part of the '
        "artifact"
    )
    assert row.hint == "move the folder away, then sweep again with --resume"
    assert notes.read_text() == "mine"
    assert eb.open_artifact(first.artifact).digest == first.digest
