"""What the real parser and builder refuse is rewritten, and the numbers are the same."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import enginebay as eb
from enginebay_tensorrt.api import from_onnx

if TYPE_CHECKING:
    from pathlib import Path

HAS_RTX = find_spec("tensorrt_rtx_bindings") is not None


class AsModule(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def exported(
    path: Path, function: Any, args: Any, *, backend: str | None, exporter: Any
) -> tuple[Any, list[Any]]:
    """Return the graph for a backend, and ONNX Runtime's outputs."""

    model = AsModule(function)
    eb.export(
        model,
        args,
        path=path,
        backend=backend,
        overwrite=True,
        options=eb.ExportOptions(exporter=exporter),
    )
    options = ort.SessionOptions()
    session = ort.InferenceSession(str(path), options)
    return onnx.load(path).graph, session.run(None, {session.get_inputs()[0].name: args.numpy()})


TRANSFORMS = {
    "fft": lambda x: torch.fft.fft(x, norm="ortho").imag,
    "fft along another axis": lambda x: torch.fft.fft(x, dim=1).real,
    "ifft": lambda x: torch.fft.ifft(x, norm="forward").real,
    "rfft": lambda x: torch.view_as_real(torch.fft.rfft(x, dim=1, norm="forward")),
    "fft2": lambda x: torch.fft.fft2(x).real,
    "ifft2": lambda x: torch.fft.ifft2(torch.fft.fft(x, dim=0), norm="ortho").real,
    "fftn": lambda x: torch.fft.fftn(x, dim=(1, 2)).real,
    "ifftn": lambda x: torch.fft.ifftn(x).imag,
}
IMAGES = torch.randn(2, 3, 9, 8)
BYTES = torch.arange(6, dtype=torch.uint8).view(2, 3)
#: Functions that the parser or the builder refuses, with the operator in its message.
REFUSED: dict[str, tuple[Any, torch.Tensor, str]] = {
    "batch_norm": (
        lambda x: F.batch_norm(x, None, None, training=True),
        IMAGES,
        "BatchNormalization",
    ),
    "batch_norm with weights": (
        nn.BatchNorm1d(3, eps=0.1, track_running_stats=False).requires_grad_(False).eval(),
        torch.randn(4, 3) + 5,
        "BatchNormalization",
    ),
    "masked_scatter": (
        lambda x: x.masked_scatter(x > 0.5, torch.arange(60.0)),
        torch.rand(2, 5, 6),
        "NonZero",
    ),
    "masked_scatter by rows": (
        lambda x: torch.masked_scatter(x, x[:, :, :1] > 0.5, torch.arange(60.0)),
        torch.rand(2, 5, 6),
        "NonZero",
    ),
    "masked_scatter with more rows": (
        lambda x: x[:1].masked_scatter(x > 0.5, torch.arange(60.0)),
        torch.rand(2, 5, 6),
        "NonZero",
    ),
    "a window larger than the image": (nn.AvgPool2d(640, ceil_mode=True), IMAGES, "AveragePool"),
    "a large image": (nn.AvgPool2d((400, 300)), torch.randn(1, 1, 400, 300), "AveragePool"),
    "fold of tiles": (nn.Fold((4, 6), 2, stride=2), torch.randn(2, 12, 6), "Col2Im"),
    "fold of tiles that leave a rest": (
        nn.Fold((5, 7), (2, 3), stride=(2, 3)),
        torch.randn(18, 4),
        "Col2Im",
    ),
    "fold that overlaps": (nn.Fold((4, 5), 3, padding=1), torch.randn(2, 18, 20), "Col2Im"),
    "fold in steps": (
        nn.Fold((6, 7), (2, 3), padding=(0, 1), stride=(2, 2)),
        torch.randn(1, 12, 12),
        "Col2Im",
    ),
    "fold of wide windows": (nn.Fold((6, 7), 3, dilation=2), torch.randn(2, 9, 6), "Col2Im"),
    "cat of bytes": (lambda x: torch.cat([x, x], 1), BYTES, "Concat"),
    "concat of bytes": (lambda x: torch.concat((x, x), dim=-1), BYTES, "Concat"),
}
#: Functions that the TorchScript exporter refuses, or writes as supported operators.
BY_DYNAMO_ALONE: dict[str, tuple[Any, torch.Tensor, str]] = {
    **{name: (function, torch.randn(2, 6, 8), "DFT") for name, function in TRANSFORMS.items()},
}
#: A few by the default exporter too, which takes seconds.
BY_DYNAMO = ("masked_scatter", "a large image", "fold of tiles", "fold in steps")


def build(path: Path) -> bytes:
    """An engine for a GPU that is not here."""
    return from_onnx(path, backend="tensorrt-rtx", compute_capability=("sm89",))


@pytest.mark.skipif(not HAS_RTX, reason="TensorRT for RTX is not installed: nox -s tensorrt")
@pytest.mark.parametrize(
    ("name", "exporter"),
    [
        *((name, "torchscript") for name in REFUSED),
        *((name, "dynamo") for name in (*BY_DYNAMO, *BY_DYNAMO_ALONE)),
    ],
)
def test_rejected_operators_are_rewritten(tmp_path: Path, name: str, exporter: Any) -> None:
    function, x, operator = (REFUSED | BY_DYNAMO_ALONE)[name]
    path = tmp_path / "m.onnx"
    eb.export(AsModule(function), x, path=path, options=eb.ExportOptions(exporter=exporter))
    with pytest.raises(eb.EnginebayError, match=operator):
        build(path)
    _, (found,) = exported(path, function, x, backend="tensorrt-rtx", exporter=exporter)
    wanted = function(x).numpy()
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert build(path)


@pytest.mark.skipif(not HAS_RTX, reason="TensorRT for RTX is not installed: nox -s tensorrt")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)),
        nn.AvgPool2d(20, ceil_mode=True),
        nn.AvgPool2d(3),
        lambda x: torch.topk(x, 3, sorted=False).values.sum(-1),
        lambda x: F.interpolate(x, (5, 7), mode="bicubic"),
        lambda x: F.instance_norm(x),
        lambda x: F.group_norm(x, 3),
        lambda x: (x % 3).repeat(1, 2, 1, 1),
        lambda x: torch.fft.fft2(x).abs(),
    ],
)
def test_accepted_operators_are_unchanged(tmp_path: Path, function: Any) -> None:
    path = tmp_path / "m.onnx"
    graphs = [
        exported(path, function, IMAGES, backend=backend, exporter="torchscript")[0]
        for backend in (None, "tensorrt-rtx")
    ]
    kinds = [[node.op_type for node in graph.node] for graph in graphs]
    assert kinds[0] == kinds[1]
    assert build(path)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resizing_with_antialias_is_two_products(tmp_path: Path, mode: str) -> None:
    def resized(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, (4, 5), mode=mode, antialias=True)

    graph, (found,) = exported(
        tmp_path / "m.onnx", resized, IMAGES, backend="tensorrt", exporter="dynamo"
    )
    kinds = [node.op_type for node in graph.node]
    assert (kinds.count("MatMul"), kinds.count("Resize")) == (2, 0)
    np.testing.assert_allclose(found, resized(IMAGES), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float16, 2e-3), (torch.bfloat16, 2e-2), (torch.float64, 1e-12)],
)
def test_rewritten_functions_keep_the_dtype(dtype: torch.dtype, tolerance: float) -> None:
    x = torch.rand(2, 18, 20).to(dtype)
    functions = [
        lambda: F.batch_norm(x, None, None, torch.ones_like(x[0, :, 0]), training=True),
        lambda: x.masked_scatter(x > 0.5, x.flip(0)),
        lambda: nn.AvgPool2d(400, ceil_mode=True)(x),
        lambda: F.fold(x, (4, 5), 3, padding=1),
    ]
    wanted = [function() for function in functions]
    with eb.rewrite(nn.Identity(), backend="tensorrt", exporter="torchscript"):
        found = [function() for function in functions]
    for each, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(each, expected, rtol=tolerance, atol=tolerance)


def doubled_tiles(x: torch.Tensor) -> torch.Tensor:
    return F.fold(F.unfold(x, 2, stride=2) * 2, x.shape[2:], 2, stride=2)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("function", [lambda x: torch.fft.fft2(x).real, doubled_tiles])
def test_a_dynamic_size_stays_dynamic(tmp_path: Path, function: Any, exporter: Any) -> None:
    path = tmp_path / "m.onnx"
    eb.export(
        AsModule(function),
        {"x": torch.randn(1, 2, 8, 6)},
        path=path,
        backend="tensorrt",
        dynamic={"x": {2: ("n", 4, 8, 16)}},
        options=eb.ExportOptions(exporter=exporter),
    )
    x = torch.randn(1, 2, 13, 6)  # of the tiles a row is left
    (found,) = ort.InferenceSession(path).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.fft.fft(x, 3).imag,
        lambda x: torch.fft.fft(x.int()).real,
        lambda x: F.fold(x[:, :8], (5, 5), 2, dilation=2, stride=2, padding=1),
        lambda x: F.batch_norm(x, torch.zeros(9), torch.ones(9), training=True),
    ],
)
def test_inexact_cases_are_left_to_torch(function: Any) -> None:
    x = torch.randn(2, 9, 9)
    wanted = function(x)
    with eb.rewrite(nn.Identity(), backend="tensorrt"):
        assert torch.equal(function(x), wanted)


def test_other_dtypes_are_concatenated_unchanged(tmp_path: Path) -> None:
    x = torch.ones(2, 3)
    graph, (found,) = exported(
        tmp_path / "m.onnx",
        lambda x: torch.cat([x, x], dim=1),
        x,
        backend="tensorrt",
        exporter="dynamo",
    )
    assert [node.op_type for node in graph.node] == ["Concat"]
    assert found.shape == (2, 6)
