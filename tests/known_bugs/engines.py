"""Bugs in the operators of the engines: ONNX Runtime, OpenVINO, ncnn."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .bug import KnownBug, chain
from .exporters import point


class Causal(nn.Module):
    """Causal attention of fewer queries than keys."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x[..., :2, :], x, x, is_causal=True)


class Capped(nn.Module):
    """Attention whose scores are capped before they are masked."""

    def forward(self, x: Tensor) -> Tensor:
        scores = 2 * torch.tanh(x @ x.transpose(-1, -2) / 2)
        return (scores + self.mask()).softmax(-1) @ x

    @staticmethod
    def mask() -> Tensor:
        return torch.full((4, 4), -1e9).triu(1)


def capped_last(module: Capped, x: Tensor) -> Tensor:
    scores = x @ x.transpose(-1, -2) + module.mask()
    return (2 * torch.tanh(scores / 2)).softmax(-1) @ x


def spread_at_once(module: nn.LayerNorm, x: Tensor) -> Tensor:
    """The variance as the mean of squares minus the square of the mean."""
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return (x - mean) / torch.sqrt(variance.abs() + module.eps) * module.weight + module.bias


class BothWays(nn.Module):
    """A bidirectional recurrent layer whose two outputs are added."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        forth, back = self.lstm(x)[0].chunk(2, -1)
        return forth + back


def not_turned_back(module: BothWays, x: Tensor) -> Tensor:
    forth, back = module.lstm(x)[0].chunk(2, -1)
    return forth + back.flip(1)


class Rows(nn.Module):
    """The last layers of a detector: channels become columns."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).permute(0, 2, 1)


def scales(count: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(count)
    nn.init.normal_(norm.weight)
    return norm


def wide(value: Tensor) -> tuple[nn.Module, Tensor]:
    """A model of integers beyond 32 bits."""
    return chain(lambda x: x + x), value


BUGS = (
    KnownBug(
        "microsoft/onnxruntime#12098",
        "a nearest resize from 26 to 64 takes the other neighbour",
        "onnxruntime 1.11 to 1.32",
        lambda: (
            chain(nn.Upsample((1, 64)), stem=point(1, 2), head=point(2, 2)),
            torch.randn(1, 1, 1, 26),
        ),
    ),
    KnownBug(
        "microsoft/onnxruntime#14208",
        "a transposed convolution with dilation and output padding",
        "onnxruntime 1.13; an error today",
        lambda: (
            chain(
                nn.ConvTranspose2d(1, 3, 2, 1, 3, output_padding=1, dilation=2),
                stem=point(1, 1),
                head=point(3, 2),
            ),
            torch.randn(1, 1, 9, 9),
        ),
        verdict="refused",
    ),
    KnownBug(
        "pytorch/pytorch#183528",
        "an average pool with ceil_mode divides its last windows by too much",
        "onnxruntime, May 2026; OpenVINO 2026.4",
        lambda: (
            chain(nn.AvgPool2d(3, 2, 1, ceil_mode=True), stem=point(1, 2), head=point(2, 2)),
            torch.randn(1, 1, 4, 4),
        ),
        backend="openvino",
        verdict="verified",
    ),
    KnownBug(
        "openvinotoolkit/openvino#35893",
        "a resize ignores antialias",
        "OpenVINO 2026.1 to 2026.4",
        lambda: (
            chain(
                lambda x: functional.interpolate(x, (3, 3), mode="bicubic", antialias=True),
                stem=point(1, 2),
                head=point(2, 2),
            ),
            torch.randn(1, 1, 12, 12),
        ),
        backend="openvino",
        exporter="dynamo",
        verdict="verified",
    ),
    KnownBug(
        "openvinotoolkit/openvino#37957",
        "clamping an integer of 64 bits takes its lower 32",
        "OpenVINO 2025.4 to 2026.4",
        lambda: (
            chain(lambda x: x.clamp(-100, 100)),
            torch.tensor([2**33 + 5, -(2**33) - 7, 2**31, 5, -200]),
        ),
        backend="openvino",
        verdict="refused",
    ),
    KnownBug(
        "openvinotoolkit/openvino#35837",
        "a running sum of integers of 64 bits has 32",
        "OpenVINO 2026.1 to 2026.4",
        lambda: (chain(lambda x: x.cumsum(0)), torch.tensor([2**30] * 5)),
        backend="openvino",
    ),
    KnownBug(
        "openvinotoolkit/openvino#35823",
        "a sum of integers of 64 bits has 32",
        "OpenVINO 2026.1 to 2026.4",
        lambda: wide(torch.tensor([5 * 10**9, 7 * 10**9, 3])),
        backend="openvino",
        verdict="refused",
    ),
    KnownBug(
        "openvinotoolkit/openvino#35890",
        "the magnitude of an integer of 64 bits has 32",
        "OpenVINO 2026.1 to 2026.4",
        lambda: (chain(torch.abs), torch.tensor([2**45, -(2**50), 7, -7])),
        backend="openvino",
        verdict="refused",
    ),
    KnownBug(
        "openvinotoolkit/openvino#35651",
        "sums of integers of 8 bits saturate",
        "OpenVINO 2026.1 to 2026.4",
        lambda: wide(torch.tensor([100, 127, -128, -100], dtype=torch.int8)),
        backend="openvino",
    ),
    KnownBug(
        "openvinotoolkit/openvino#35648",
        "the logarithm of a sum of exponentials overflows",
        "OpenVINO 2026.1",
        lambda: (
            chain(lambda x: torch.logsumexp(x, 1)),
            torch.tensor([[100.0, 88.0, 50.0], [200.0, -10.0, 1.0]]),
        ),
        lambda module, x: x.exp().sum(1).log(),
        backend="openvino",
    ),
    KnownBug(
        "microsoft/onnxruntime#29629",
        "an average pool with ceil_mode divides by the whole kernel",
        "onnxruntime, July 2026",
        lambda: (
            chain(nn.AvgPool2d(3, 2, 1, ceil_mode=True), stem=point(1, 2), head=point(2, 2)),
            torch.randn(1, 1, 4, 4),
        ),
        lambda module, x: functional.avg_pool2d(functional.pad(x, (1, 2, 1, 2)), 3, 2),
    ),
    KnownBug(
        "microsoft/onnxruntime#5151",
        "a nearest resize moves the pictures of a batch",
        "onnxruntime, September 2020",
        lambda: (
            chain(nn.Upsample(scale_factor=3), stem=point(1, 2), head=point(2, 2)),
            torch.randn(4, 1, 2, 2),
        ),
        lambda module, x: module(x[[1, 2, 3, 3]]),
    ),
    KnownBug(
        "microsoft/onnxruntime#6995",
        "CELU is composed without the division in its exponential",
        "onnxruntime, March 2021",
        lambda: (
            chain(nn.CELU(0.5), stem=nn.Linear(6, 6), head=nn.Linear(6, 2)),
            torch.randn(3, 6),
        ),
        lambda module, x: functional.elu(x, 0.5),
    ),
    KnownBug(
        "microsoft/onnxruntime#29020",
        "the causal mask of one query ends at its last key",
        "onnxruntime, June 2026",
        lambda: (
            chain(Causal(), stem=nn.Linear(8, 8), head=nn.Linear(8, 2)),
            torch.randn(1, 2, 5, 8),
        ),
        lambda module, x: functional.scaled_dot_product_attention(
            x[..., :2, :], x, x, attn_mask=torch.ones(2, 5).tril(3).bool()
        ),
    ),
    KnownBug(
        "microsoft/onnxruntime#28379",
        "the scores of attention are capped behind the mask",
        "onnxruntime, May 2026",
        lambda: (
            chain(Capped(), stem=nn.Linear(8, 8), head=nn.Linear(8, 2)),
            torch.randn(1, 2, 4, 8),
        ),
        capped_last,
    ),
    KnownBug(
        "microsoft/onnxruntime#28743",
        "the variance of a layer norm cancels out far from zero",
        "onnxruntime, June 2026",
        lambda: (
            chain(nn.LayerNorm(8), head=nn.Linear(8, 2)),
            torch.randn(3, 8) + 300,
        ),
        spread_at_once,
    ),
    KnownBug(
        "Tencent/ncnn#2933",
        "a recurrent layer in both directions gives other numbers",
        "ncnn, May 2021",
        lambda: (
            chain(BothWays(), stem=nn.Linear(4, 4), head=nn.Linear(5, 2)),
            torch.randn(1, 6, 4),
        ),
        not_turned_back,
        backend="ncnn",
        exporter=None,
    ),
    KnownBug(
        "Tencent/ncnn#5679",
        "a permutation is dropped",
        "pnnx, September 2024",
        lambda: (
            chain(Rows(), stem=point(3, 4), head=nn.Linear(4, 2)),
            torch.randn(1, 3, 2, 3),
        ),
        lambda module, x: x.reshape(1, 6, 4),
        backend="ncnn",
        exporter=None,
    ),
    KnownBug(
        "Tencent/ncnn#4578",
        "a scale behind a convolution is wrong in vectors of 16 channels",
        "ncnn 20230223, AVX-512",
        lambda: (
            chain(scales(16), stem=point(3, 16), head=point(16, 2)),
            torch.randn(1, 3, 4, 4),
        ),
        lambda module, x: x * module.weight[0],
        backend="ncnn",
        exporter=None,
    ),
)
