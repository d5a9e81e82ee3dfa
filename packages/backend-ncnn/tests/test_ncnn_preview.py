"""All operators that neither pnnx, nor ncnn, nor the lowering knows are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

import enginebay as eb
from enginebay.hooks import ConvertRequest

if TYPE_CHECKING:
    from pathlib import Path


@torch.library.custom_op("ncnn_preview::wibble", mutates_args=())
def wibble(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Foreign(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return wibble(x).relu()


class Left(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x).relu()


class LeftOfTwo(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(torch.sort(x.relu(), dim=1)[0])


class Lowered(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x.relu(), dim=1)[0]


def lacking(model: nn.Module, folder: Path) -> dict[str, str] | None:
    backend = eb.get_backend("ncnn")
    ir = eb.export(
        model, torch.randn(1, 8), path=folder / "m.pt", options=eb.ExportOptions(ir="torchscript")
    )
    work_dir = folder / "work"
    work_dir.mkdir()
    request = ConvertRequest(ir=ir, params=backend.Params(), work_dir=work_dir)
    return backend.unsupported_operators(request)


def test_preview_names_a_custom_operator(tmp_path: Path) -> None:
    assert lacking(Foreign(), tmp_path) == {
        "ncnn_preview::wibble": "pnnx reads only torch's own operators"
    }


def test_preview_names_an_operator_that_ncnn_lacks(tmp_path: Path) -> None:
    found = lacking(Left(), tmp_path)
    assert found == {"aten::special_bessel_j0": "ncnn has no such layer"}


def test_preview_names_an_operator_that_cannot_be_lowered(tmp_path: Path) -> None:
    found = lacking(LeftOfTwo(), tmp_path)
    assert found == {
        "aten::special_bessel_j0": "ncnn has no such layer, and Enginebay has no lowering"
    }


def test_preview_does_not_name_a_lowered_operator(tmp_path: Path) -> None:
    assert lacking(Lowered(), tmp_path) == {}
