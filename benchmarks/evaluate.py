"""``lab.evaluate`` against the same loop by hand: PyTorch, ONNX Runtime and two accuracies."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import enginebay as eb
import enginebay_lab as lab
from benchmarks import models
from benchmarks.table import Row
from benchmarks.turns import paired

if TYPE_CHECKING:
    from collections.abc import Iterator

#: All digits of scikit-learn; and so few that start and end take most of the time.
ITEMS, FEW = 1797, 64
TURNS = 9


def run() -> Iterator[Row]:
    """Measure the time per item of 8×8 pixels, without the start of the engine's process."""
    model, example = models.digits()
    rng = np.random.default_rng(0)
    images = rng.random((ITEMS, 1, 1, 8, 8), np.float32)
    labels = rng.integers(0, 10, ITEMS)
    with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
        data = Path(folder) / "digits.npz"
        np.savez(data, x=images, target=labels)
        artifact = eb.deploy(
            *(model, example),
            work_dir=Path(folder) / "artifact",
            backend="onnxruntime",
            params={"intra_op_threads": 1},
        ).artifact
        pairs = [
            (_ours(artifact, data, model), _by_hand(artifact, data, model))
            for _ in range(1 + TURNS)
        ]
    yield Row.of("evaluate", "a digit", "a loop by hand", paired(pairs[1:]), "µs", 1.1)


def _ours(artifact: eb.Artifact, data: Path, model: torch.nn.Module) -> float:
    """Return the seconds per item."""

    def seconds(count: int) -> float:
        items = eb.DataSet(data, take=count)
        start = time.perf_counter()
        lab.evaluate(artifact, items, "accuracy", model=(model, torch.zeros(1, 1, 8, 8)))
        return time.perf_counter() - start

    return (seconds(ITEMS) - seconds(FEW)) / (ITEMS - FEW)


def _by_hand(artifact: eb.Artifact, data: Path, model: torch.nn.Module) -> float:
    """Do the same by hand: read the file, and pass each item through both."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        artifact.path / artifact.files[0], options, providers=["CPUExecutionProvider"]
    )
    start = time.perf_counter()
    with np.load(data) as file:
        images, labels = file["x"], file["target"]
    right: Any = [0, 0]
    with torch.no_grad():
        for image, label in zip(images, labels, strict=True):
            expected = model(torch.from_numpy(image)).numpy()
            (found,) = session.run(None, {"x": image})
            right[0] += expected.argmax(-1)[0] == label
            right[1] += found.argmax(-1)[0] == label
    return (time.perf_counter() - start) / ITEMS
