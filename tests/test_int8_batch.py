"""8-bit engines at another batch: the items of the data as one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

ENGINES = ("onnxruntime", "openvino")
ROWS = np.random.default_rng(0).normal(size=(7, 1, 4, 8)).astype(np.float32)
FIVE = "items 0, 1, 2, 3, 4 as one batch"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor, factor: Tensor | None = None) -> Tensor:
        y = self.last(self.first(x).relu())
        return y if factor is None else y * factor


def deploy(folder: Path, engine: str = "onnxruntime", **over: Any) -> eb.Deployment:
    options: dict[str, Any] = {"dynamic": "batch", "data": [{"x": row} for row in ROWS], **over}
    return eb.deploy(
        Net().eval(),
        over.pop("args", torch.from_numpy(ROWS[0])),
        backend=engine,
        work_dir=folder,
        params={"precision": "int8"},
        **{name: value for name, value in options.items() if name != "args"},
    )


def find_batches(deployment: eb.Deployment) -> list[str]:
    assert deployment.verification.basis is not None
    return [label for label in deployment.verification.basis.labels if "as one batch" in label]


@pytest.mark.parametrize("engine", ENGINES)
def test_items_are_compared_as_one_batch(engine: str, tmp_path: Path) -> None:
    done = deploy(tmp_path / "out", engine)
    assert (done.verdict, find_batches(done)) == ("verified", [FIVE])
    assert find_batches(done)[0] in eb.verify(done.artifact).basis.labels


def test_a_batch_of_items_keeps_to_the_largest_size(tmp_path: Path) -> None:
    done = deploy(tmp_path / "out", dynamic={"x": {0: ("batch", 1, 3)}})
    assert find_batches(done) == ["items 0, 1, 2 as one batch"]


@pytest.mark.parametrize(
    "over",
    [
        {"dynamic": None},
        {"dynamic": {"x": {1: "length"}}},
        {"data": [{"x": ROWS[0]}]},
        {
            "dynamic": {"x": {0: "batch"}},
            "args": (torch.from_numpy(ROWS[0]), torch.ones(1)),
            "data": [{"x": row, "factor": np.ones(1, np.float32)} for row in ROWS],
        },
    ],
)
def test_items_that_fit_no_batch_are_compared_apart(over: Any, tmp_path: Path) -> None:
    assert find_batches(deploy(tmp_path / "out", **over)) == []


def test_an_engine_that_returns_the_first_row_for_all_is_mismatched(tmp_path: Path) -> None:
    done = deploy(tmp_path / "out")
    file = done.artifact.path / "model.onnx"
    model = onnx.load(file)
    (output,) = model.graph.output
    (last,) = (node for node in model.graph.node if output.name in node.output)
    last.output[0] = "rows"
    for name, value in {"from": [0], "to": [1]}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    model.graph.node.extend(
        [
            onnx.helper.make_node("Slice", ["rows", "from", "to"], ["first"]),
            onnx.helper.make_node("Shape", ["rows"], ["shape"]),
            onnx.helper.make_node("Expand", ["first", "shape"], [output.name]),
        ]
    )
    onnx.save(model, file)
    found = eb.verify(done.artifact)
    assert (found.verdict, found.failed) == ("mismatched", (FIVE,))
