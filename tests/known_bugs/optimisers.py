"""Bugs of graph optimisers: ONNX Runtime, onnxscript, onnxoptimizer, OpenVINO."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .bug import KnownBug, chain
from .exporters import point


class Shifted(nn.Module):
    """A grouped convolution plus an image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 1, groups=4)
        self.register_buffer("picture", torch.randn(1, 8, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) + self.picture


class Norm(nn.Module):
    """A layer norm in single operations, with a scale for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.centred(x) * self.scale

    def centred(self, x: Tensor) -> Tensor:
        rest = x - x.mean(-1, keepdim=True)
        return rest / torch.sqrt(rest.pow(2).mean(-1, keepdim=True) + 1e-5)


class Residual(nn.Module):
    """A layer norm of a sum, whose epsilon is large."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = nn.Linear(6, 6), nn.LayerNorm(6, eps=0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.inner(x))


class Product(nn.Module):
    """A product with a matrix after a transposition that changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 1) @ self.weight + self.bias


class Shared(nn.Module):
    """A product in which a reshape determines the shared rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 2, 3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return (x.reshape(1, 2, 2, 3) @ self.weight).reshape(2, 2, 2, 2)


class Scaled(nn.Module):
    """A product whose bias counts twice, and a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(torch.addmm(self.bias, x, self.weight, beta=2.0))


class Weighted(nn.Module):
    """A weighted sum, and a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(16, 4)), nn.Parameter(torch.rand(16))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight).sum(-1) + self.bias


class Boxes(nn.Module):
    """The sizes of boxes from their corners."""

    def forward(self, x: Tensor) -> Tensor:
        corners = x.unsqueeze(2)
        return (corners[..., 2:] - corners[..., :2]).squeeze(2)


BUGS = (
    KnownBug(
        "microsoft/onnxruntime#12498",
        "a picture added to a convolution in groups becomes its bias",
        "onnxruntime, August 2022",
        lambda: (
            chain(Shifted(), stem=point(8, 8), head=point(8, 2)),
            torch.randn(1, 8, 4, 4),
        ),
        lambda module, x: module.conv(x) + module.picture[..., :1, :1],
    ),
    KnownBug(
        "microsoft/onnxruntime#22177",
        "a pad becomes part of an average pool that leaves pads out",
        "onnxruntime 1.19",
        lambda: (
            chain(
                nn.Sequential(nn.ZeroPad2d(1), nn.AvgPool2d(3, 2)),
                stem=point(1, 2),
                head=point(2, 2),
            ),
            torch.randn(1, 1, 8, 8),
        ),
        lambda module, x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    KnownBug(
        "onnxsim/onnxsim#290",
        "a pad with zeros becomes part of a max pool",
        "onnxsim to 0.6.5, onnxoptimizer to 0.4.2, onnxruntime to 1.31",
        lambda: (
            chain(
                nn.Sequential(nn.ZeroPad2d(1), nn.MaxPool2d(3, 2)),
                stem=point(1, 2),
                head=point(2, 2),
            ),
            torch.randn(1, 1, 8, 8),
        ),
        lambda module, x: functional.max_pool2d(x, 3, 2, 1),
    ),
    KnownBug(
        "microsoft/onnxruntime#25855",
        "a layer norm is fused whose scale belongs to another axis",
        "onnxruntime, August 2025",
        lambda: (
            chain(Norm(), stem=nn.Linear(4, 4), head=nn.Linear(4, 2)),
            torch.randn(2, 4, 4),
        ),
        lambda module, x: module.centred(x) * module.scale.t(),
    ),
    KnownBug(
        "microsoft/onnxruntime#3768",
        "a fused layer norm has the usual epsilon",
        "onnxruntime, April 2020",
        lambda: (
            chain(Residual(), stem=nn.Linear(6, 6), head=nn.Linear(6, 2)),
            torch.randn(3, 6),
        ),
        lambda module, x: functional.layer_norm(x + module.inner(x), (6,), eps=1e-12),
    ),
    KnownBug(
        "microsoft/onnxruntime#32228",
        "a transposition that changes nothing turns a product round",
        "onnxruntime 1.27",
        lambda: (
            chain(Product(), stem=nn.Linear(4, 4), head=nn.Linear(4, 2)),
            torch.randn(4, 4),
        ),
        lambda module, x: x.t() @ module.weight + module.bias,
        exporter="dynamo",
    ),
    KnownBug(
        "microsoft/onnxscript#1512",
        "reshapes around a product are dropped though they say what is shared",
        "onnxscript, May 2024",
        lambda: (
            chain(Shared(), stem=nn.Linear(3, 3), head=nn.Linear(2, 2)),
            torch.randn(2, 1, 2, 3),
        ),
        lambda module, x: x @ module.weight,
        exporter="dynamo",
    ),
    KnownBug(
        "microsoft/onnxscript#3027",
        "a batch norm is folded into a product without the factor of its bias",
        "onnxscript, September 2026",
        lambda: (
            chain(Scaled(), stem=nn.Linear(6, 6), head=nn.Linear(4, 2)),
            torch.randn(3, 6),
        ),
        lambda module, x: module.norm(x @ module.weight + module.bias),
        exporter="dynamo",
    ),
    KnownBug(
        "onnx/optimizer#275",
        "an expand that is needed is taken for none",
        "onnxoptimizer 0.4.2",
        lambda: (
            chain(lambda x: x.expand(3, 4).sum(0), stem=nn.Linear(4, 4), head=nn.Linear(4, 2)),
            torch.randn(1, 4),
        ),
        lambda module, x: x.sum(0),
    ),
    KnownBug(
        "openvinotoolkit/openvino#23616",
        "a weighted sum and its bias are fused wrongly",
        "OpenVINO 2024.0",
        lambda: (
            chain(Weighted(), stem=nn.Linear(4, 4), head=nn.Linear(16, 2)),
            torch.randn(1, 16, 4),
        ),
        lambda module, x: (x * module.weight + module.bias[:, None]).sum(-1),
        backend="openvino",
    ),
    KnownBug(
        "openvinotoolkit/openvino#16872",
        "slices of an unsqueezed tensor are wrong",
        "OpenVINO 2022.3",
        lambda: (
            chain(Boxes(), stem=nn.Linear(4, 4), head=nn.Linear(2, 2)),
            torch.randn(1, 5, 4),
        ),
        lambda module, x: x[..., :2] - x[..., :2],
        backend="openvino",
    ),
)
