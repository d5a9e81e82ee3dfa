"""Bugs of exporters: PyTorch's two ONNX exporters, and those to other formats."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .bug import KnownBug, chain

#: Row indices, with a repeated index.
TWICE = torch.tensor([0, 1, 1, 2])


def point(inner: int, outer: int) -> nn.Module:
    """A 1×1 convolution."""
    return nn.Conv2d(inner, outer, 1)


class Branches(nn.Module):
    """Two folded layers that read the same tensor."""

    def __init__(self, layer: type[nn.Module], norm: type[nn.Module], *sizes: int) -> None:
        super().__init__()
        self.left = self._folded(layer, norm, sizes)
        self.right = self._folded(layer, norm, sizes)

    @staticmethod
    def _folded(layer: type[nn.Module], norm: type[nn.Module], sizes: tuple[int, ...]) -> nn.Module:
        folded = nn.Sequential(layer(*sizes, bias=False), norm(sizes[1]))
        nn.init.normal_(folded[1].bias)
        return folded

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) + self.right(x).relu()


def without_bias(module: nn.Module, x: Tensor) -> Tensor:
    return module(x) - module(torch.zeros_like(x))


def others_bias(module: nn.Module, x: Tensor) -> Tensor:
    bias = module(torch.zeros_like(x))
    return module(x) - bias + bias.roll(1, -1)


def added_in_place(x: Tensor) -> Tensor:
    copy = x.clone()
    row = copy[1, ...]
    row += 2
    return copy


def assigned(x: Tensor) -> Tensor:
    copy = x.repeat(3, 1)
    copy[:2] = x * 2
    return copy


def last_of_equal(x: Tensor) -> Tensor:
    return torch.zeros(4, 3).scatter(0, TWICE[:, None].expand(4, 3), x)


def masked_source(x: Tensor) -> Tensor:
    mask = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0]).bool()[:, None]
    return torch.zeros(8, 4).masked_scatter(mask, x)


class ByRate(nn.Module):
    """Selects the filter by the sampling rate."""

    def __init__(self) -> None:
        super().__init__()
        self.fast, self.slow = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.fast(x) if x.shape[-1] == 6 else self.slow(x)


class Turned(nn.Module):
    """Multiplies by a constant that is a transposed view."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(6, 4).t(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.table


class Loop(nn.Module):
    """Replaces the columns one by one."""

    def forward(self, x: Tensor) -> Tensor:
        for column in range(2):
            index = torch.full((4, 1), column)
            x = x.scatter(1, index, x[:, 2:3] * (column + 1))
        return x


class Masked(nn.Module):
    """Attention whose mask hides every key from the first row."""

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(4, 4).tril(-1).bool()
        return functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


BUGS = (
    KnownBug(
        "pytorch/pytorch#111159",
        "index_add with an index twice keeps the last row alone",
        "TorchScript exporter, October 2023 to torch 2.13",
        lambda: (
            chain(
                lambda x: torch.zeros(4, 3).index_add(0, TWICE, x),
                stem=nn.Linear(3, 3),
                head=nn.Linear(3, 2),
            ),
            torch.randn(4, 3),
        ),
    ),
    KnownBug(
        "pytorch/pytorch#61034",
        "index_put with accumulate and an index twice keeps the last row alone",
        "TorchScript exporter, June 2021 to torch 2.13",
        lambda: (
            chain(
                lambda x: torch.zeros(4, 3).index_put((TWICE,), x, accumulate=True),
                stem=nn.Linear(3, 3),
                head=nn.Linear(3, 2),
            ),
            torch.randn(4, 3),
        ),
    ),
    KnownBug(
        "pytorch/pytorch#191014",
        "a right shift of a negative integer is rounded towards zero",
        "TorchScript exporter, to torch 2.13",
        lambda: (chain(lambda x: x >> 1), torch.tensor([-7, 5, -1, 8], dtype=torch.int32)),
    ),
    KnownBug(
        "pytorch/pytorch#139455",
        "a right shift becomes a division",
        "TorchScript exporter, torch 2.1 to 2.13",
        lambda: (chain(lambda x: x >> 8), torch.tensor([-3527, 3527, -1])),
        backend="openvino",
        verdict="verified",
    ),
    KnownBug(
        "microsoft/onnxscript#2479",
        "attention of a row that is masked whole",
        "default exporter, August 2025 to onnxscript 0.7.2",
        lambda: (
            chain(Masked(), stem=nn.Linear(8, 8), head=nn.Linear(8, 2)),
            torch.randn(1, 2, 4, 8),
        ),
        exporter="dynamo",
        verdict="verified",
    ),
    KnownBug(
        "pytorch/pytorch#166797",
        "two convolutions of one tensor share a folded bias",
        "default exporter, November 2025",
        lambda: (Branches(nn.Conv2d, nn.BatchNorm2d, 4, 8, 3), torch.randn(1, 4, 8, 8)),
        without_bias,
        exporter="dynamo",
        culprit="right",
    ),
    KnownBug(
        "pytorch/pytorch#174042",
        "two linear layers of one tensor share a folded bias",
        "default exporter, February 2026",
        lambda: (Branches(nn.Linear, nn.BatchNorm1d, 6, 8), torch.randn(3, 6)),
        others_bias,
        exporter="dynamo",
        culprit="right",
    ),
    KnownBug(
        "pytorch/pytorch#183523",
        "a picture made one pixel small is its corner",
        "May 2026",
        lambda: (
            chain(nn.Upsample((1, 1), mode="bilinear"), stem=point(3, 3), head=point(3, 2)),
            torch.randn(1, 3, 10, 10),
        ),
        lambda module, x: x[..., :1, :1],
    ),
    KnownBug(
        "pytorch/pytorch#122290",
        "an addition in place to an indexed row is lost",
        "TorchScript exporter, March 2024 to torch 2.13",
        lambda: (
            chain(added_in_place, stem=nn.Linear(4, 4), head=nn.Linear(4, 2)),
            torch.randn(2, 3, 4),
        ),
    ),
    KnownBug(
        "pytorch/pytorch#19948",
        "an assignment to a slice is lost",
        "TorchScript exporter of torch 1.0",
        lambda: (
            chain(assigned, stem=nn.Linear(4, 4), head=nn.Linear(4, 2)),
            torch.randn(2, 4),
        ),
        lambda module, x: x.repeat(3, 1),
    ),
    KnownBug(
        "pytorch/pytorch#125835",
        "scatter_add with an index twice keeps the last row alone",
        "TorchScript exporter of torch 2.2, opset 11",
        lambda: (
            chain(
                lambda x: torch.zeros(4, 3).scatter_add(0, TWICE[:, None].expand(4, 3), x),
                stem=nn.Linear(3, 3),
                head=nn.Linear(3, 2),
            ),
            torch.randn(4, 3),
        ),
        lambda module, x: last_of_equal(x),
    ),
    KnownBug(
        "pytorch/pytorch#99424",
        "ceil_mode of an average pool is lost",
        "TorchScript exporter of torch 2.0",
        lambda: (
            chain(
                nn.Sequential(nn.AvgPool2d(4, 2, ceil_mode=True), nn.AdaptiveAvgPool2d(1)),
                stem=point(1, 2),
                head=point(2, 2),
            ),
            torch.randn(1, 1, 9, 9),
        ),
        lambda module, x: module[1](functional.avg_pool2d(x, 4, 2)),
    ),
    KnownBug(
        "pytorch/pytorch#13934",
        "count_include_pad of an average pool is lost",
        "TorchScript exporter, November 2018",
        lambda: (
            chain(nn.AvgPool2d(3, 2, 1), stem=point(1, 2), head=point(2, 2)),
            torch.randn(1, 1, 8, 8),
        ),
        lambda module, x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    KnownBug(
        "pytorch/pytorch#78442",
        "floor division of negative integers is truncated",
        "TorchScript exporter, to torch 1.13",
        lambda: (
            chain(lambda x: torch.div(x, 3, rounding_mode="floor")),
            torch.tensor([-7, -5, -1, 1, 5]),
        ),
        lambda module, x: torch.div(x, 3, rounding_mode="trunc"),
    ),
    KnownBug(
        "pytorch/pytorch#64230",
        "the remainder of a negative integer has the wrong sign",
        "TorchScript exporter, August 2021",
        lambda: (chain(lambda x: torch.remainder(x, 3)), torch.tensor([-7, -5, -1, 1, 5])),
        lambda module, x: torch.fmod(x, 3),
    ),
    KnownBug(
        "pytorch/pytorch#186146",
        "masked_scatter writes its source in another order",
        "default exporter, June 2026",
        lambda: (
            chain(masked_source, stem=nn.Linear(4, 4), head=nn.Linear(4, 2)),
            torch.randn(4, 4),
        ),
        lambda module, x: masked_source(x.t()),
        exporter="dynamo",
    ),
    KnownBug(
        "pytorch/pytorch#69605",
        "a size of an input becomes a constant",
        "TorchScript exporter of torch 1.10",
        lambda: (
            chain(lambda x: x + x.shape[0], stem=nn.Linear(4, 4), head=nn.Linear(4, 2)),
            torch.randn(3, 4),
        ),
        lambda module, x: x + 3,
        dynamic={"input": {0: "rows"}},
    ),
    KnownBug(
        "pytorch/pytorch#29647",
        "a tensor that a loop changes becomes a constant",
        "TorchScript exporter, 2019 to January 2022",
        lambda: (
            chain(Loop(), stem=nn.Linear(4, 4), head=nn.Linear(4, 2)),
            torch.randn(4, 4),
        ),
        lambda module, x: module(torch.arange(16.0).reshape(4, 4)) + 0 * x,
    ),
    KnownBug(
        "pytorch/pytorch#22906",
        "a bilinear resize has the corners of the other kind",
        "TorchScript exporter with opset 10",
        lambda: (
            chain(nn.Upsample((4, 4), mode="bilinear"), stem=point(1, 2), head=point(2, 2)),
            torch.randn(1, 1, 2, 2),
        ),
        lambda module, x: functional.interpolate(x, (4, 4), mode="bilinear", align_corners=True),
    ),
    KnownBug(
        "google-ai-edge/litert-torch#1238",
        "a transposed constant is read in the order of its memory",
        "litert-torch 0.9",
        lambda: (
            chain(Turned(), stem=nn.Linear(6, 6), head=nn.Linear(6, 2)),
            torch.randn(4, 6),
        ),
        lambda module, x: x * module.table.t().reshape(4, 6),
    ),
    KnownBug(
        "google-ai-edge/litert-torch#718",
        "a layer norm is zero behind the first four values",
        "ai-edge-torch 0.4, on GPU",
        lambda: (
            chain(nn.LayerNorm(8), stem=nn.Linear(8, 8), head=nn.Linear(8, 2)),
            torch.randn(2, 8),
        ),
        lambda module, x: module(x) * (torch.arange(8) < 4),
    ),
    KnownBug(
        "snakers4/silero-vad#783",
        "the graph without branches has other weights",
        "silero_vad_op18_ifless.onnx",
        lambda: (
            chain(ByRate(), stem=nn.Linear(6, 6), head=nn.Linear(6, 2)),
            torch.randn(2, 6),
        ),
        lambda module, x: module.slow(x),
    ),
)
