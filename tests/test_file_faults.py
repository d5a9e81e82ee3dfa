"""Engines of an ONNX file that are wrong on purpose: rounding excuses none of them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb

from .conftest import derived

if TYPE_CHECKING:
    from pathlib import Path

#: An ONNX Runtime whose conversion changes the file.
WRONG = """
@eb.hookimpl
def to_backend(request):
    import numpy as np
    import onnx
    from onnx import numpy_helper
    model = onnx.load(request.ir.path)
    graph = model.graph
    def first(kind):
        return next(node for node in graph.node if node.op_type == kind)
    def attribute(node, name):
        return next(each for each in node.attribute if each.name == name)
    def weight(node, number, change):
        for each in graph.initializer:
            if each.name == node.input[number]:
                array = np.asarray(change(numpy_helper.to_array(each).copy()), np.float32)
                each.CopyFrom(numpy_helper.from_array(array, each.name))
    {change}
    target = request.work_dir / "wrong.onnx"
    onnx.save(model, target)
    return [target]
"""

FAULTS = {
    "a pad on the other side": "attribute(first('Conv'), 'pads').ints[:] = [0, 0, 2, 2]",
    "the mean of a norm": "weight(first('BatchNormalization'), 3, np.zeros_like)",
    "the variance of a norm": "weight(first('BatchNormalization'), 4, lambda v: 1.02 * v)",
    "the epsilon of a norm": "attribute(first('BatchNormalization'), 'epsilon').f = 0.02",
    "a lost branch": "first('Add').input[1] = first('Add').input[0]",
    "a bias": "weight(first('Gemm'), 2, np.zeros_like)",
    "a channel": "weight(first('Conv'), 1, lambda w: np.r_[0 * w[:1], w[1:]])",
    "weights in fewer bits": "weight(first('Conv'), 1, lambda w: np.round(256 * w) / 256)",
    "another activation": "first('Relu').op_type = 'LeakyRelu'",
    "the padding in an average": "attribute(first('AveragePool'), 'count_include_pad').i = 0",
}


class Net(nn.Module):
    """A residual block between a norm of its own and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.AvgPool2d(3, 2, 1)
        self.head = nn.Linear(8, 5)
        nn.init.uniform_(self.norm.running_mean, -1, 1)
        nn.init.uniform_(self.norm.running_var, 0.5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x).relu()
        x = self.pool(x + self.norm(x))
        return self.head(x.mean((2, 3))).softmax(-1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("faults") / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated
        torch.onnx.export(
            Net().eval(),
            (torch.randn(1, 3, 12, 12),),
            file,
            opset_version=12,
            dynamo=False,
            input_names=["x"],
        )
    return file


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.one_in(4)
def test_a_wrong_engine_of_a_file_is_not_verified(fault: str, path: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12), np.float32)
    source = WRONG.format(change=FAULTS[fault])
    with derived("wrong", source), pytest.raises(eb.NotVerifiedError, match="mismatched"):
        eb.deploy(path, {"x": x}, backend="wrong", work_dir=tmp_path / "out")


def test_the_same_engine_without_a_fault_is_verified(path: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12), np.float32)
    with derived("wrong", WRONG.format(change="pass")):
        deployed = eb.deploy(path, {"x": x}, backend="wrong", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"


#: All scores below a thousandth become 0.
CUT_OFF = """
    node = first('Sigmoid')
    node.op_type, node.input[0] = 'ThresholdedRelu', 's'
    node.attribute.append(onnx.helper.make_attribute('alpha', 1e-3))
    sigmoid = onnx.helper.make_node('Sigmoid', [last.output[0]], ['s'])
    graph.node.insert(len(graph.node) - 1, sigmoid)"""

#: What ONNX Runtime computes in place of a file with a detector's scores, most of them near 0.
SCORES = {
    "the engine's own sigmoid, exact to 1e-7": ("pass", "verified"),
    "logits that are off by a thousandth": ("weight(last, 1, lambda w: 1.001 * w)", "mismatched"),
    "a shifted bias": ("weight(last, 2, lambda b: b + 0.05)", "mismatched"),
    "a piecewise sigmoid": ("first('Sigmoid').op_type = 'HardSigmoid'", "mismatched"),
    "weights in half precision": (
        "weight(last, 1, np.float16); weight(first('Conv'), 1, np.float16)",
        "mismatched",
    ),
    "no small scores": (CUT_OFF, "mismatched"),
}


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.Sigmoid()).eval()
    net[2].weight.data *= 8
    nn.init.constant_(net[2].bias, -14.0)
    file = tmp_path_factory.mktemp("scores") / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated
        torch.onnx.export(
            net,
            (torch.randn(1, 3, 24, 24),),
            file,
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
        )
    return file


@pytest.mark.parametrize("case", SCORES)
def test_scores_near_0_are_judged_by_their_logits(case: str, scores: Path, tmp_path: Path) -> None:
    change, verdict = SCORES[case]
    x = np.random.default_rng(0).standard_normal((1, 3, 24, 24), np.float32)
    last = "last = [node for node in graph.node if node.op_type == 'Conv'][-1]; "
    options = eb.VerifyOptions(allow_mismatch=True)
    with derived("wrong", WRONG.format(change=last + change)):
        deployed = eb.deploy(
            scores, {"x": x}, backend="wrong", work_dir=tmp_path / "out", verify=options
        )
        assert deployed.verdict == verdict
        (output,) = deployed.verification.outputs
        assert output.is_score
        again = eb.verify(tmp_path / "out")
        assert (again.verdict, again.outputs) == (verdict, deployed.verification.outputs)
