"""Where the model returns NaN on a probe input, any answer of the engine is told and accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from packages.core.tests.planted_models import judge

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")


def attend(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(mask == 0, -torch.inf).softmax(-1) * x


def average(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (x * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True) + x


#: Models that return NaN for a row that is masked whole.
UNDEFINED = {"a masked softmax": attend, "a mean of what the mask keeps": average}


@pytest.mark.parametrize("mask", [torch.ones(2, 6, dtype=torch.int64), torch.ones(2, 6).bool()])
@pytest.mark.parametrize("name", UNDEFINED)
def test_numbers_for_the_models_nan_are_told(name: str, mask: torch.Tensor, tmp_path: Path) -> None:
    right = UNDEFINED[name]

    def engine(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return right(x, mask).nan_to_num(0.25)

    found = judge(right, engine, (torch.randn(2, 6), mask), tmp_path)
    assert found.verdict == "verified", found.explain()
    assert found.non_finite.startswith("the model returns NaN on the probe 'other: an empty row'")
    assert found.non_finite in found.warnings


def wrong_elsewhere(right: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def engine(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        result = right(x, mask)
        has_empty_row = result.isnan().any()
        return result.nan_to_num(0.25) + has_empty_row * (mask != 0) * 0.5

    return engine


@pytest.mark.parametrize("name", UNDEFINED)
def test_other_elements_of_the_same_probe_are_compared(name: str, tmp_path: Path) -> None:
    right = UNDEFINED[name]
    mask = torch.ones(2, 6, dtype=torch.int64)
    found = judge(right, wrong_elsewhere(right), (torch.randn(2, 6), mask), tmp_path)
    assert found.verdict == "mismatched"


@pytest.mark.parametrize("name", UNDEFINED)
def test_nan_for_the_models_numbers_is_a_mismatch(name: str, tmp_path: Path) -> None:
    def right(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return UNDEFINED[name](x, mask).nan_to_num(0.25)

    example = torch.randn(2, 6), torch.ones(2, 6, dtype=torch.int64)
    assert judge(right, UNDEFINED[name], example, tmp_path).verdict == "mismatched"


def test_a_model_whose_example_has_nan_is_compared_where_it_has_nan(tmp_path: Path) -> None:
    def right(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return x.log() + other

    example = torch.randn(3, 5), torch.randn(5)
    assert judge(right, right, example, tmp_path / "right").verdict == "verified"
    found = judge(right, lambda x, other: x.abs().log() + other, example, tmp_path / "wrong")
    assert found.verdict == "mismatched"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_padded_rows_that_pytorch_packs_are_the_cause(tmp_path: Path) -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.TransformerEncoder(layer, 1)

        def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
            return self.encoder(x, src_key_padding_mask=padding)

    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    with pytest.raises(eb.NotVerifiedError) as caught:
        eb.deploy(
            *(Encoder().eval(), (torch.randn(2, 6, 8), padding)),
            backend="loopback",
            work_dir=tmp_path / "out",
        )
    (cause,) = caught.value.verdict.causes()
    assert "returns 0 at their ends" in cause
    assert "test_undefined.py:" in cause
