"""Evaluation on three real engines, with metrics of Enginebay and of torchmetrics."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab

if TYPE_CHECKING:
    from pathlib import Path

#: Each engine has a single thread: on a busy machine, thread pools wait for each other.
THREADS = {"onnxruntime": "intra_op_threads", "openvino": "threads", "ncnn": "threads"}
BACKENDS = tuple(THREADS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact of each engine, and 100 items; PyTorch predicts the targets of 90."""
    made = tmp_path_factory.mktemp("evaluate")
    model = network()
    x = np.random.default_rng(0).normal(size=(100, 1, 1, 8, 8)).astype(np.float32)
    with torch.no_grad():
        target = model(torch.from_numpy(x[:, 0])).argmax(1).numpy()
    target[:10] = (target[:10] + 1) % 10
    np.savez(made / "data.npz", input=x, target=target)
    for backend in BACKENDS:
        eb.deploy(
            *(model, torch.zeros(1, 1, 8, 8)),
            backend=backend,
            work_dir=made / backend,
            params={THREADS[backend]: 1},
            export=eb.ExportOptions(exporter=None if backend == "ncnn" else "torchscript"),
            verify=eb.VerifyOptions(probes=0),
        )
    return made


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)).eval()


def test_three_engines_agree_on_the_same_items(folder: Path) -> None:
    evaluation = lab.evaluate(
        [folder / backend for backend in BACKENDS],
        folder / "data.npz",
        ["accuracy", "top-5", "cosine"],
        model=(network(), torch.zeros(1, 1, 8, 8)),
    )
    assert [row.backend for row in evaluation.rows[::3]] == list(BACKENDS)
    for row in evaluation.rows:
        assert (row.error, row.count, row.agreement) == ("", 100, 1.0)
        assert row.drop == pytest.approx(0, abs=1e-4)
    assert evaluation.rows[0].value == evaluation.rows[0].reference == 0.9


def test_items_beyond_what_was_verified_are_counted(tmp_path: Path) -> None:
    model = network()
    for name, data in (("probed", None), ("example", [{"input": np.zeros((1, 1, 8, 8), "f4")}])):
        eb.deploy(
            *(model, torch.randn(1, 1, 8, 8)),
            backend="onnxruntime",
            work_dir=tmp_path / name,
            data=data,
            verify=eb.VerifyOptions(probes=8 if name == "probed" else 0),
        )
    within = np.zeros((1, 1, 8, 8), np.float32)
    items = [({"input": within}, 0)] * 100 + [({"input": within + 1e6}, 0)] * 3
    evaluation = lab.evaluate([tmp_path / "probed", tmp_path / "example"], items, "accuracy")
    assert [(row.beyond, row.count) for row in evaluation.rows] == [(3, 103), (3, 103)]
    note = f"3 of 103 items lie beyond what '{tmp_path / 'probed'}' was verified with"
    assert note in " ".join(str(evaluation).split())


def test_batches_of_tensors_are_evaluated(tmp_path: Path) -> None:
    model = network()
    eb.deploy(
        *(model, torch.zeros(2, 1, 8, 8)),
        backend="onnxruntime",
        work_dir=tmp_path / "batched",
        dynamic={"input": {0: ("batch", 1, 8)}},
        verify=eb.VerifyOptions(probes=0),
    )
    x = torch.randn(20, 1, 8, 8)
    with torch.no_grad():
        target = model(x).argmax(1)
    batches = list(zip(x.split(8), target.split(8), strict=True))  # 8, 8 and 4
    (row,) = lab.evaluate(tmp_path / "batched", batches, "accuracy", model=(model, x[:2])).rows
    assert (row.value, row.reference, row.count, row.agreement) == (1.0, 1.0, 20, 1.0)


@pytest.mark.skipif(
    importlib.util.find_spec("torchmetrics") is None, reason="torchmetrics is not installed"
)
def test_torchmetrics_metrics_are_computed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchmetrics

    names: list[Any] = [
        "torchmetrics:MulticlassAccuracy(num_classes=10, average='micro')",
        "torchmetrics:MulticlassF1Score(num_classes=10)",
        torchmetrics.Accuracy(task="multiclass", num_classes=10),
    ]
    where = folder / "onnxruntime"
    model = (network(), torch.zeros(1, 1, 8, 8))
    rows = lab.evaluate(where, folder / "data.npz", names, model=model).rows
    assert rows[0].value == pytest.approx(0.9)
    assert rows[2].metric == "MulticlassAccuracy"
    assert all(row.drop == 0 for row in rows)

    zeros = [({"input": np.zeros((1, 1, 8, 8), np.float32)}, np.zeros((1, 10), np.float32))]
    (row,) = lab.evaluate(where, zeros, "torchmetrics:MeanSquaredError", model=model).rows
    assert row.value == pytest.approx(row.reference)
    assert row.drop == pytest.approx(0, abs=1e-6)

    for name, message in (
        ("torchmetrics:MeanSquareError", "torchmetrics .* has no metric 'MeanSquareError'"),
        ("torchmetrics:MulticlassF1Score", "'torchmetrics:MulticlassF1Score' cannot be built"),
        ("torchmetrics:Mean(x=open('a'))", "is not the name of a metric"),
    ):
        with pytest.raises(eb.EnginebayError, match=message):
            lab.evaluate(where, folder / "data.npz", name)


@pytest.mark.skipif(
    importlib.util.find_spec("torchmetrics") is None, reason="torchmetrics is not installed"
)
def test_torchmetrics_metric_resumes_after_an_interruption(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginebay_lab.evaluation.checkpoints.CHECKPOINT_SECONDS", 0)
    with np.load(folder / "data.npz") as data:
        x, target = data["input"], data["target"]
    stop = True

    def items() -> Any:
        for number in range(100):
            if number == 70 and stop:
                raise KeyboardInterrupt
            yield {"input": x[number]}, target[number]

    name = "torchmetrics:MulticlassAccuracy(num_classes=10, average='micro')"
    options: Any = {"output": tmp_path / "rows.jsonl", "resume": True}
    with pytest.raises(KeyboardInterrupt):
        lab.evaluate(folder / "onnxruntime", items, name, **options)
    assert list(tmp_path.glob("*.part"))
    stop = False
    (row,) = lab.evaluate(folder / "onnxruntime", items, name, **options).rows
    assert (row.value, row.count) == (pytest.approx(0.9), 100)


def test_memory_does_not_grow_with_the_number_of_items(folder: Path) -> None:
    import psutil

    x = np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32)

    def items() -> Any:
        for number in range(6000):
            if number == 3000:
                before.append(psutil.Process().memory_info().rss)
            yield {"input": x}, 0

    before: list[int] = []
    (row,) = lab.evaluate(folder / "onnxruntime", items, "accuracy").rows
    assert row.count == 6000
    assert psutil.Process().memory_info().rss - before[0] < 8 << 20
