"""A cell of a sweep as a job on a real engine, and its row."""

from __future__ import annotations

import fcntl
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.sweeps.cells import NET, cell_of, reply_from_elsewhere, swept

import enginebay as eb
from enginebay_lab.sweeps.cell_task import run_cell
from enginebay_lab.sweeps.job_builder import attempts_folder, build_job
from enginebay_lab.sweeps.sweep_rows import SweepRow
from enginebay_lab.sweeps.worker_replies import receive_row


def test_row_records_cell_machine_versions_and_artifact(net, tmp_path) -> None:
    cell = cell_of(duration=0.3)
    row = swept(cell, tmp_path / "out")
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
    folder = tmp_path / f"out/artifacts/net.py-build-on-onnxruntime-{cell.key}"
    assert (row.artifact, row.speed.artifact) == (str(folder), str(folder))
    assert list((tmp_path / "out/artifacts").iterdir()) == [folder]
    assert eb.open_artifact(folder).digest == row.digest
    assert msgspec.json.decode(msgspec.json.encode(row), type=SweepRow) == row


def test_a_cell_that_runs_again_replaces_its_artifact(net, tmp_path) -> None:
    first = swept(cell_of(), tmp_path / "out")
    second = swept(cell_of(), tmp_path / "out")
    assert first.artifact == second.artifact
    assert second.artifact
    assert eb.open_artifact(second.artifact).digest == second.digest


def test_artifact_is_removed_without_an_output_folder(net) -> None:
    row = swept(cell_of())
    assert (row.verdict, row.artifact) == ("verified", None)
    assert row.digest
    assert row.size


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (cell_of("net.py:fail"), "calling 'net.py:fail' raised RuntimeError: no weights"),
        (cell_of("net.py:odd"), "raised ValueError: no file mod\\udce8le"),
        (cell_of("net.py:no"), "there is no 'no' in"),
        (cell_of("net.py:build", precision="fp3"), "fp3"),
        (
            cell_of("net.py:build", params={"colour": 1}),
            "OnnxruntimeParams got 'colour', which is not one of its fields: work_dir, ",
        ),
        (cell_of("net.py:build", inputs=("input=1xx",)), "input=1xx"),
        (cell_of("net.py:build", data="no.npz"), "no data set 'no.npz'"),
    ],
    ids=["raises", "no text", "no name", "precision", "parameter", "input", "data"],
)
def test_invalid_cell_fails_with_its_reason(net, tmp_path, cell, reason) -> None:
    row = swept(cell, tmp_path / "out")
    assert (row.verdict, row.fault, row.artifact) == ("failed", "", None)
    assert reason in row.reason
    assert not list((tmp_path / "out/artifacts").iterdir())


def test_output_unreachable_for_the_worker_is_noted(net, tmp_path) -> None:
    output = tmp_path / "out"
    row = receive_row(cell_of(), reply_from_elsewhere(cell_of(), output), output)
    assert (row.verdict, row.artifact) == ("verified", None)
    assert row.notes[-1] == (
        f"the artifact was not saved: {row.host} cannot write to '{output}'; name an --output on a "
        "file system that all workers share"
    )


def test_cells_of_a_machine_are_measured_one_at_a_time(net, tmp_path) -> None:
    cell = cell_of(duration=0.1)
    with attempts_folder(tmp_path / "out") as token, ThreadPoolExecutor(1) as pool:
        lock = Path("/tmp/enginebay-measuring.lock")
        if not lock.exists():  # the lock may belong to a different user
            lock.touch()
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            reply = pool.submit(run_cell, build_job(cell, tmp_path / "out", token))
            folder = tmp_path / "out/artifacts/.attempts"
            while not list(folder.glob("*/*/*/manifest.json")):
                assert not reply.done()
            time.sleep(1)
            assert not reply.done()
        row = receive_row(cell, reply.result(), tmp_path / "out")
    assert row.speed


def test_metrics_are_in_the_row(net, tmp_path) -> None:
    inputs = np.random.default_rng(0).normal(size=(16, 1, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", input=inputs, target=np.zeros(16, np.int64))
    cell = cell_of(data="data.npz", take=8, metrics=("accuracy", "cosine"))
    row = swept(cell, tmp_path / "out")
    assert row.verdict == "verified"
    assert [(metric.metric, metric.count, metric.drop) for metric in row.metrics] == [
        ("accuracy", 8, 0.0),
        ("cosine", 8, pytest.approx(0, abs=1e-5)),
    ]
    assert {metric.artifact for metric in row.metrics} == {row.artifact}
    row = swept(cell_of(data="data.npz", metrics=("accuracyy",)))
    assert row.verdict == "verified"
    assert "unknown metric 'accuracyy'" in row.metrics[0].failure()


def test_config_is_read_before_the_job_is_sent(net, tmp_path) -> None:
    (tmp_path / "base.toml").write_text('onnx_config = {input_names = ["pixels"]}')
    config = tmp_path / "mine.toml"
    config.write_text(
        '_base_ = "base.toml"\nbackend_config = {type = "onnxruntime"}\n'
        'calib_config = {calib_file = "data.npz"}'
    )
    np.savez(tmp_path / "data.npz", pixels=np.ones((2, 1, 4), np.float32))
    output, cell = tmp_path / "out", cell_of(config="mine.toml")
    with attempts_folder(output) as token:
        job = build_job(cell, output, token)
        config.unlink()
        row = receive_row(cell, run_cell(job), output)
    assert (row.verdict, row.reason) == ("verified", "")
    assert row.artifact
    manifest = eb.open_artifact(row.artifact).manifest
    assert [spec.name for spec in manifest.inputs] == ["pixels"]
    assert manifest.data
    assert manifest.data.count == 2


@pytest.mark.parametrize("model", ["inner.py:build", "inner:build"])
def test_relative_paths_are_resolved_in_the_cell_folder(net, tmp_path, model) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "inner.py").write_text(NET)
    (folder / "deploy.toml").write_text('backend_config = {type = "onnxruntime"}')
    np.savez(folder / "items.npz", input=np.ones((4, 1, 4), np.float32), target=[0, 1, 2, 0])
    cell = cell_of(
        model,
        config="deploy.toml",
        data="items.npz",
        metrics=("accuracy",),
        max_drop=0.5,
        folder=str(folder),
    )
    row = swept(cell, tmp_path / "out")
    assert (row.verdict, row.reason, row.model) == ("verified", "", model)
    assert [(metric.metric, metric.error) for metric in row.metrics] == [("accuracy", "")]
    assert row.max_drop == 0.5
    command = eb.open_artifact(row.artifact).manifest.command
    assert command.startswith(f"cd {shlex.quote(str(folder))} && enginebay deploy {model} ")
