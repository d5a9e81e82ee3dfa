"""int8: layers in 8 bits, and what stays in single precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError, ParamsError
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.weights import split_weights

INT8 = {"precision": "int8"}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU6())
        self.depthwise = nn.Conv2d(16, 32, (3, 1), groups=16, bias=False)
        self.grouped = nn.Conv2d(32, 32, 1, groups=4)
        self.up = nn.ConvTranspose2d(32, 8, 2, stride=2)
        self.slope = nn.PReLU(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.grouped(self.depthwise(self.stem(x)).relu())
        return self.head(self.slope(self.up(x)).mean((2, 3)))


def items(*shape: int, count: int = 12) -> list[np.ndarray]:
    return list(np.random.default_rng(0).normal(size=(count, *shape)).astype(np.float32))


@pytest.mark.parametrize("batch", [1, 3])
def test_convolutions_and_inner_products_are_in_8_bits(deploy, batch):
    shape = (batch, 3, 12, 12)
    example = torch.randn(shape)
    full = deploy(Net().eval(), example, params={}).artifact
    coarse = deploy(Net().eval(), example, params=INT8, data=items(*shape))
    assert (coarse.verdict, coarse.receipt.precision) == ("verified", "int8")
    layers = {
        layer.name: layer for layer in Graph.read(coarse.artifact.path / "model.param").layers
    }
    kinds = {layer.type for layer in layers.values() if layer.int_param(8)}
    assert kinds >= {"Convolution", "ConvolutionDepthWise"}
    grouped = [layer for layer in layers.values() if layer.int_param(7) == 4]
    assert [layer.int_param(8) for layer in grouped] == [0]
    sizes = [(artifact.path / "model.bin").stat().st_size for artifact in (full, coarse.artifact)]
    assert sizes[1] < sizes[0]
    with eb.load(full) as exact, eb.load(coarse.artifact) as rounded:
        (wanted,), (found,) = exact({"x": example}).values(), rounded({"x": example}).values()
    assert not np.array_equal(wanted, found)


@pytest.mark.filterwarnings("ignore:the recorded verdict of:enginebay.VerdictWarning")
def test_products_are_right_on_every_processor(deploy):
    # Equal inputs and weights: the sum of two products exceeds 16 bits. ncnn has no switch for the
    # instruction set; on a processor without VNNI this fails if ncnn saturates there.
    conv = nn.Conv2d(16, 16, 3)
    nn.init.constant_(conv.weight, 0.5)
    bright = [np.full((1, 16, 8, 8), 1 - 0.01 * place, np.float32) for place in range(4)]
    # The items hardly differ, so that their differences drown in the noise of 8 bits.
    example = torch.from_numpy(bright[0])
    done = deploy(conv, example, params=INT8, data=bright, verify={"allow_mismatch": True})
    with (
        pytest.warns(eb.VerdictWarning, match="the recorded verdict of .* is mismatched"),
        eb.load(done.artifact) as wrapper,
    ):
        (found,) = wrapper({"input": bright[0]}).values()
    wanted = conv(torch.from_numpy(bright[0])).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=0.01)


def test_layers_in_keep_stay_in_floats(deploy):
    data = items(1, 3, 12, 12)
    done = deploy(
        Net().eval(), torch.randn(1, 3, 12, 12), params=INT8, data=data, int8_keep=["Convolution"]
    )
    layers = Graph.read(done.artifact.path / "model.param").layers
    coarse = {
        layer.type for layer in layers if layer.int_param(8) and layer.type.startswith("Conv")
    }
    assert coarse == {"ConvolutionDepthWise"}
    assert done.artifact.manifest.kept


def test_ranges_include_all_items_of_the_data(deploy):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)).eval()
    data = items(1, 3, 6, 6)
    data[3] *= 50
    example = torch.from_numpy(data[3])
    assert (
        deploy(model, example, params=INT8, data=data, verify={"allow_mismatch": True})
        .verification.signals[-1]
        .passed
    )


def test_weights_are_split_as_ncnn_reads_them(deploy):
    artifact = deploy(Net().eval(), torch.randn(1, 3, 12, 12)).artifact
    layers = Graph.read(artifact.path / "model.param").layers
    data = (artifact.path / "model.bin").read_bytes()
    parts = split_weights(layers, data)
    assert b"".join(parts) == data
    sizes = {layer.type: len(part) for layer, part in zip(layers, parts, strict=True)}
    assert sizes["PReLU"] == 4 * 8
    with pytest.raises(
        ConversionError, match=f"read {len(data)} bytes of weights, but the file has"
    ):
        split_weights(layers, data + b"more")
    with pytest.raises(ConversionError, match="cannot load the layer"):
        split_weights(layers, data[:-50])


def test_a_network_without_quantisable_layers_is_refused(deploy):
    with pytest.raises(ConversionError, match="the network has no layers to quantise"):
        deploy(nn.Softmax(-1), torch.randn(2, 5), params=INT8, data=items(2, 5))


def test_custom_layers_with_int8_are_refused(deploy):
    params = {**INT8, "custom_layers": {"Mine": "json:JSONDecoder"}}
    with pytest.raises(ParamsError, match="int8 and custom_layers cannot be combined"):
        deploy(nn.Linear(4, 4), torch.randn(1, 4), params=params, data=items(1, 4))
