"""Outputs with values of different units in 8 bits: boxes and scores, constants and embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import enginebay as eb
from enginebay.errors import NotVerifiedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

ENGINES = ("onnxruntime", "openvino")
INT8 = {"precision": "int8"}
IMAGES = np.random.default_rng(0).random((24, 1, 3, 16, 16)).astype(np.float32)
#: Layout of a head → how its boxes and scores are returned.
LAYOUTS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "columns": lambda boxes, scores: torch.cat([boxes, scores], -1),
    "rows": lambda boxes, scores: torch.cat([boxes, scores], -1).transpose(1, 2),
    "one score": lambda boxes, scores: torch.cat([boxes, scores[..., :1]], -1),
    "scores first": lambda boxes, scores: torch.cat([scores, boxes], -1),
    "apart": lambda boxes, scores: (boxes, scores),
}


class Head(nn.Module):
    def __init__(self, layout: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layout = layout
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 9, 3))
        with torch.no_grad():
            self.body[2].weight *= 4

    def forward(self, x: Tensor) -> Any:
        y = self.body(x).flatten(2).transpose(1, 2)
        return LAYOUTS[self.layout](y[..., :4] * 320, y[..., 4:].clamp(-1, 1))


def deploy(model: nn.Module, engine: str, folder: Path, **over: Any) -> eb.Deployment:
    return eb.deploy(
        model.eval(),
        torch.from_numpy(IMAGES[0]),
        backend=engine,
        work_dir=folder,
        params=INT8,
        data=[{"x": image} for image in IMAGES],
        **over,
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_beside_boxes_keep_their_signal(layout: str, engine: str, tmp_path: Path) -> None:
    done = deploy(Head(layout), engine, tmp_path / "out")
    signals = [signal for signal in done.verification.signals if signal.place == "items"]
    assert [(signal.lost, signal.faint) for signal in signals] == [("", "")] * len(signals)
    assert done.verdict == "verified"
    if engine == "onnxruntime" and layout != "apart":
        (note,) = done.notes
        assert note.startswith("node_cat stays in floating point: it joins values up to ")
        assert note.endswith(
            "and one scale in 8 bits would leave too few steps for the smaller values"
        )


def test_scores_that_a_file_rounds_with_boxes_are_a_mismatch(tmp_path: Path) -> None:
    """A model that is quantised already: one scale for the concatenation."""
    head = Head("columns").eval()
    done = deploy(head, "onnxruntime", tmp_path / "right")
    model = onnx.load(done.artifact.path / "model.onnx")
    (output,) = model.graph.output
    (last,) = (node for node in model.graph.node if output.name in node.output)
    last.output[0] = "joined"
    scale, zero = np.float32(2.5), np.uint8(128)
    model.graph.initializer.extend(
        [numpy_helper.from_array(scale, "s"), numpy_helper.from_array(zero, "z")]
    )
    model.graph.node.extend(
        [
            onnx.helper.make_node("QuantizeLinear", ["joined", "s", "z"], ["joined_q"]),
            onnx.helper.make_node("DequantizeLinear", ["joined_q", "s", "z"], [output.name]),
        ]
    )
    onnx.save(model, done.artifact.path / "model.onnx")
    found = eb.verify(done.artifact)
    (signal, _) = found.signals
    assert (found.verdict, signal.lost, signal.faint) == ("mismatched", "[..., 4:9]", "")
    assert "noise is more than half of the signal in [..., 4:9]" in found.explain()
    assert "keep the node that joins them in floating point with --int8-keep" in found.explain()


@pytest.mark.parametrize(("constant", "passes"), [(0, True), (1000, False)])
def test_an_embedding_is_judged_by_what_differs_between_items(
    tmp_path: Path, constant: int, passes: bool
) -> None:
    class Embedding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.body = nn.Sequential(nn.Conv2d(3, 32, 5, 3), nn.ReLU(), nn.Flatten())
            self.head = nn.Linear(512, 32)
            with torch.no_grad():
                self.head.bias += constant * (torch.arange(32) % 2 - 0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x))

    if passes:
        assert deploy(Embedding(), "onnxruntime", tmp_path / "out").verdict == "verified"
        return
    with pytest.raises(NotVerifiedError, match="dB without each element's mean"):
        deploy(Embedding(), "onnxruntime", tmp_path / "out")
