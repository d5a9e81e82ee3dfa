"""Each rewriter is needed, and matches PyTorch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

SMALLER_THAN_ITS_WINDOW = {
    "average": lambda x: F.avg_pool2d(x, 9, ceil_mode=True),
    "average with padding": lambda x: F.avg_pool2d(x, (12, 2), padding=(2, 0), ceil_mode=True),
    "average without the padding": lambda x: F.avg_pool2d(
        x, (12, 2), padding=(2, 0), ceil_mode=True, count_include_pad=False
    ),
    "average without a batch": lambda x: F.avg_pool2d(x[0, :, :, :3], 4, ceil_mode=True),
    "average of sequences": lambda x: F.avg_pool1d(x[0], 9, ceil_mode=True),
    "largest": nn.MaxPool2d(9, ceil_mode=True),
    "largest of sequences": lambda x: F.max_pool1d(x[0], 9, 7, ceil_mode=True),
}


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("name", SMALLER_THAN_ITS_WINDOW)
@pytest.mark.one_in(3)
def test_pooling_with_an_oversized_window_is_verified(
    name: str, exporter: Any, as_model: Any, tmp_path: Path
) -> None:
    model, x = as_model(SMALLER_THAN_ITS_WINDOW[name]), torch.randn(1, 3, 5, 4)
    plain = eb.export(
        model, x, path=tmp_path / "plain.onnx", options=eb.ExportOptions(exporter=exporter)
    )
    with pytest.raises(eb.EnginebayError, match="OpenVINO cannot convert"):
        eb.convert(plain, backend="openvino", work_dir=tmp_path / "plain")
    deployment = eb.deploy(
        model,
        x,
        backend="openvino",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(ir="onnx", exporter=exporter),
    )
    assert deployment.verdict == "verified"


#: Pools whose last window may reach beyond the padding: kernel, stride and padding.
BEYOND_THE_PADDING = [(3, 2, 1), (4, 3, 2), (5, 4, 1), (2, 3, 1)]


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.one_in(2)
def test_cells_beyond_the_padding_are_not_averaged(
    dims: int, exporter: Any, as_model: Any, tmp_path: Path
) -> None:
    pool = getattr(F, f"avg_pool{dims}d")

    def pooled(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            pool(x[..., : x.shape[-1] - less], *sizes, ceil_mode=True, count_include_pad=inside)
            for sizes in BEYOND_THE_PADDING
            for less in (0, 1)
            for inside in (True, False)
        ]

    x = torch.rand(1, 2, *(6, 5, 7)[-dims:]) + 1
    deployment = eb.deploy(
        as_model(pooled),
        x,
        backend="openvino",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(ir="onnx", exporter=exporter),
    )
    assert deployment.verdict == "verified"


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_an_average_of_a_dynamic_size_is_verified(
    exporter: Any, as_model: Any, tmp_path: Path
) -> None:
    deployment = eb.deploy(
        as_model(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
        torch.rand(1, 2, 6, 6) + 1,
        backend="openvino",
        work_dir=tmp_path / "out",
        dynamic={"x": {2: ("height", 4, 6, 12)}},
        export=eb.ExportOptions(ir="onnx", exporter=exporter),
    )
    assert deployment.verdict == "verified"


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_an_image_is_smoothed_before_it_shrinks(
    exporter: Any, as_model: Any, tmp_path: Path
) -> None:
    def shrunk(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.interpolate(x, (4, 3), mode="bilinear", antialias=True),
            F.interpolate(x, scale_factor=0.4, mode="bicubic", antialias=True),
        ]

    deployment = eb.deploy(
        as_model(shrunk),
        torch.randn(2, 3, 11, 9),
        backend="openvino",
        work_dir=tmp_path / "out",
        dynamic=["x:0"],
        export=eb.ExportOptions(ir="onnx", exporter=exporter),
    )
    assert deployment.verdict == "verified"
    assert deployment.rewriting is not None
    assert {name.split(".")[1] for name in deployment.rewriting.fired} == {
        "_upsample_bilinear2d_aa",
        "_upsample_bicubic2d_aa",
    }


DIVISORS = torch.tensor([3, -3, 1, -7] * 3, dtype=torch.int32)
BEYOND_FLOAT32 = {
    "quotient": lambda x: x // DIVISORS,
    "quotient by a number": lambda x: torch.div(x, 5, rounding_mode="floor"),
    "quotient towards zero": lambda x: torch.div(x, DIVISORS, rounding_mode="trunc"),
    "remainder": lambda x: x % DIVISORS,
    "remainder by a number": lambda x: torch.remainder(x, 5),
    "remainder towards zero": lambda x: torch.fmod(x, DIVISORS),
    "shift": lambda x: x >> 2,
    "square": lambda x: x**2,
    "seventh power": lambda x: x.pow(7),
}


@pytest.mark.parametrize("name", BEYOND_FLOAT32)
@pytest.mark.one_in(3)
def test_integers_beyond_float32_are_exact(name: str, as_model: Any, tmp_path: Path) -> None:
    model, x = as_model(BEYOND_FLOAT32[name]), torch.arange(-6, 6, dtype=torch.int32)
    deployment = eb.deploy(model, x, backend="openvino", work_dir=tmp_path / "out")
    with eb.load(deployment.artifact) as wrapper:
        for large in (x + 2**24 + 1, x - 2**24 - 1, x + 2**30 + 1):
            (found,) = wrapper({wrapper.input_names[0]: large}).values()
            assert torch.equal(found, model(large))


def test_determinants_are_lowered(as_model: Any, tmp_path: Path) -> None:
    """OpenVINO lacks ONNX's ``Det``, which both exporters would write."""
    model, x = as_model(lambda x: torch.linalg.det(x @ x.mT + torch.eye(4))), torch.randn(2, 4, 5)
    deployment = eb.deploy(
        model, x, backend="openvino", work_dir=tmp_path / "out", export=eb.ExportOptions(ir="onnx")
    )
    assert deployment.verdict == "verified"
    assert deployment.rewriting is not None
    assert deployment.rewriting.fired == {"aten.linalg_det": 1}


def test_pooling_with_a_fitting_window_is_verified(tmp_path: Path) -> None:
    model = nn.Sequential(nn.AvgPool2d(2, ceil_mode=True), nn.MaxPool2d(2, 1, 1, 1))
    deployment = eb.deploy(
        model, torch.randn(1, 3, 5, 4), backend="openvino", work_dir=tmp_path / "out"
    )
    assert deployment.verdict == "verified"


@pytest.mark.parametrize("ir", ["onnx", "torchscript"])
@pytest.mark.parametrize("more", [{}, {"stride": (2, 1), "padding": 1, "ceil_mode": True}])
def test_average_pooling_with_another_divisor_is_verified(
    ir: Any, more: Any, as_model: Any, tmp_path: Path
) -> None:
    model = as_model(lambda x: F.avg_pool2d(x, (2, 3), divisor_override=4, **more))
    deployment = eb.deploy(
        model,
        torch.randn(1, 3, 5, 4),
        backend="openvino",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(ir=ir),
    )
    assert deployment.verdict == "verified"


@pytest.mark.parametrize("ir", ["onnx", "torchscript", "exported_program"])
def test_sums_of_exponentials_do_not_overflow(ir: Any, as_model: Any, tmp_path: Path) -> None:
    model = as_model(
        lambda x: (
            torch.logaddexp(x, x.flip(0)),
            torch.logaddexp2(x, x),
            F.binary_cross_entropy_with_logits(x, x.sign().relu(), reduction="none"),
        )
    )
    eb.deploy(
        model,
        torch.randn(6),
        backend="openvino",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(ir=ir),
    )
    x = torch.tensor([0.0, 1000, -1000, 100, -100, -math.inf])
    with eb.load(tmp_path / "out") as wrapper:
        found = wrapper({wrapper.input_names[0]: x.numpy()})
    for output, expected in zip(found.values(), model(x), strict=True):
        np.testing.assert_allclose(output, expected.numpy(), rtol=1e-5, atol=1e-5)


#: An equation of three tensors with an ellipsis, and their shapes.
ELLIPSES = {
    "...de,...nd,...n->...ne": ((1, 4, 6, 8), (1, 4, 5, 6), (1, 4, 5)),
    "...ij, ...jk, ...k": ((2, 3, 4), (2, 4, 5), (2, 5)),
    "a...,b...,c...->...abc": ((2, 3), (4, 3), (5, 3)),
}


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("equation", ELLIPSES)
@pytest.mark.one_in(2)
def test_a_contraction_with_an_ellipsis_is_verified(
    equation: str, as_list: bool, tmp_path: Path
) -> None:
    class Contraction(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return torch.einsum(equation, [a, b, c]) if as_list else torch.einsum(equation, a, b, c)

    inputs = tuple(torch.randn(shape) for shape in ELLIPSES[equation])
    deployment = eb.deploy(Contraction(), inputs, backend="openvino", work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_a_contraction_with_contracted_constants_is_verified(
    exporter: Literal["dynamo", "torchscript"], tmp_path: Path
) -> None:
    """From attention with relative positions; OpenVINO 2026.4 itself computes other numbers."""

    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(64, 32))
            self.register_buffer("kernel", torch.randn(32, 4, 8))
            self.register_buffer("places", torch.arange(48, 16, -1)[:, None].expand(32, 32))

        def forward(self, query: torch.Tensor) -> torch.Tensor:
            positions = torch.gather(self.table, 0, self.places)
            heads = torch.einsum("td,dnh->tnh", positions, self.kernel)
            return torch.einsum("binh,tnh->bnit", query.view(1, 16, 4, 8), heads)

    deployment = eb.deploy(
        *(Positions(), torch.randn(1, 16, 32)),
        backend="openvino",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(exporter=exporter),
    )
    assert deployment.verdict == "verified"


def test_a_singular_matrix_has_a_determinant_of_zero(as_model: Any, tmp_path: Path) -> None:
    matrices = torch.randn(2, 4, 4)
    model = as_model(torch.linalg.det)
    deployment = eb.deploy(model, matrices, backend="openvino", work_dir=tmp_path / "a")
    with eb.load(deployment.artifact) as wrapper:
        for x in (torch.ones(2, 4, 4), torch.zeros(2, 4, 4)):
            assert wrapper({"x": x})["output"].tolist() == [0, 0]
