"""Mistakes that two variations reveal only together, and values that no example shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from packages.core.tests.planted_models import judge
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Compute = Callable[..., torch.Tensor]

pytestmark = pytest.mark.usefixtures("loopback")


def masked_softmax(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(mask == 0, -1e4).softmax(-1) * x


def masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (x * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def last_token(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    last = (mask.sum(-1) - 1).clamp(min=0)
    return x[torch.arange(x.shape[0]), last] + x.sum(-1)


def cut(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return x * (torch.arange(x.shape[1]) < lengths[:, None])


def shift(x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    return x + torch.sin(step[:, None] * 0.1)


def switch(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    return torch.where(flag[:, None], x, x * x + 1)


ONES = torch.ones(1, 6, dtype=torch.int64)
#: The operation, and an example of one row in which the second input has a single value.
ROWS: dict[str, tuple[Compute, torch.Tensor]] = {
    "a masked softmax": (masked_softmax, ONES),
    "a masked mean": (masked_mean, ONES),
    "the last token": (last_token, ONES),
    "a mask of bools": (masked_softmax, ONES.bool()),
    "lengths": (cut, torch.tensor([6])),
    "time steps": (shift, torch.tensor([999])),
    "flags": (switch, torch.tensor([True])),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_first_rows_values_for_all_rows_fail_the_verdict(name: str, tmp_path: Path) -> None:
    right, other = ROWS[name]

    def wrong(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return right(x, other[:1].expand(other.shape))

    example = (torch.randn(1, 6), other)
    dynamic = {name: {0: ("batch", 1, 8)} for name in ("x", "other")}
    assert judge(right, wrong, example, tmp_path, dynamic=dynamic).verdict == "mismatched"


@pytest.mark.parametrize("name", ROWS)
def test_the_same_models_are_verified_without_a_mistake(name: str, tmp_path: Path) -> None:
    right, other = ROWS[name]
    dynamic = {name: {0: ("batch", 1, 8)} for name in ("x", "other")}
    found = judge(right, right, (torch.randn(1, 6), other), tmp_path, dynamic=dynamic)
    assert found.verdict == "verified", found.explain()
    assert found.basis is not None
    assert found.basis.dropped == ()


FLAGS = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "the first": lambda a, _: a,
}


class Two(nn.Module):
    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule = FLAGS[rule]

    def forward(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.where(self.rule(a, b), x, x * x + 1)


@pytest.mark.parametrize("wrong", FLAGS)
@pytest.mark.parametrize("right", FLAGS)
def test_flags_are_told_apart(right: str, wrong: str, tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()
    rewriters.function(f"{__name__}.Two.forward")(
        lambda ctx, self, x, a, b: torch.where(FLAGS[wrong](a, b), x, x * x + 1)
    )
    found = eb.deploy(
        Two(right),
        (torch.randn(2, 6), torch.tensor(True), torch.tensor(False)),
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(rewriters=[rewriters]),
        verify=eb.VerifyOptions(allow_mismatch=True),
    ).verification
    assert found.verdict == ("verified" if right == wrong else "mismatched")


MASKS: dict[str, tuple[Compute, Compute]] = {
    "an empty row, -inf": (
        masked_softmax,
        lambda x, m: x.masked_fill(m == 0, -torch.inf).softmax(-1) * x,
    ),
    "an empty row, unclamped": (masked_mean, lambda x, m: (x * m).sum(-1) / m.sum(-1)),
    "half of a row": (
        masked_mean,
        lambda x, m: (x * m).sum(-1) / m.sum(-1).clamp(min=x.shape[1] // 2),
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_little_content_fail_the_verdict(name: str, tmp_path: Path) -> None:
    right, wrong = MASKS[name]
    found = judge(right, wrong, (torch.randn(2, 6), ONES.expand(2, 6)), tmp_path)
    assert found.verdict == "mismatched"


SIZES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "even ones": lambda size: (size % 2 == 0) & (size != 64),
    "odd ones": lambda size: size % 2 == 1,
    "the next one": lambda size: size == 65,
    "the number of channels": lambda size: size == 3,
}


@pytest.mark.parametrize("name", SIZES)
def test_single_wrong_sizes_fail_the_verdict(name: str, tmp_path: Path) -> None:
    def right(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return x.sum(2)

    def wrong(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return x.sum(2) + SIZES[name](torch.full((), x.shape[2]))

    example = (torch.randn(1, 3, 64), torch.ones(1))
    found = judge(right, wrong, example, tmp_path, dynamic={"x": {2: ("width", 1, 256)}})
    assert found.verdict == "mismatched"


def test_sizes_of_a_model_that_takes_multiples_only_are_multiples(tmp_path: Path) -> None:
    def right(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        if x.shape[2] % 32:
            raise ValueError("a multiple of 32, please")
        return x.sum(2)

    example = (torch.randn(1, 3, 64), torch.ones(1))
    found = judge(right, right, example, tmp_path, dynamic={"x": {2: ("width", 64, 256)}})
    assert found.verdict == "verified"
    assert found.basis is not None
    assert [label for label in found.basis.labels if "96" in label]
    assert found.basis.dropped[0].endswith("multiples of 32 are tried instead")


VALUES: dict[str, tuple[Compute, Compute, torch.Tensor]] = {
    "an epsilon": (
        lambda x, _: x / (x.abs() + 1e-5),
        lambda x, _: x / (x.abs() + 1e-3),
        torch.randn(2, 6),
    ),
    "pixels": (lambda x, _: x, lambda x, _: x.clamp(max=200), torch.rand(1, 3, 6)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_beyond_the_example_fail_the_verdict(name: str, tmp_path: Path) -> None:
    right, wrong, x = VALUES[name]
    assert judge(right, wrong, (x, torch.ones(1)), tmp_path).verdict == "mismatched"


def test_sorted_boundaries_stay_sorted(tmp_path: Path) -> None:
    def right(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return x + torch.searchsorted(edges, x)

    found = judge(right, right, (torch.randn(2, 6), torch.linspace(-1, 1, 5)), tmp_path)
    assert found.verdict == "verified", found.explain()


@pytest.mark.parametrize("size", [1, 2, 5, 11, 14, 16])
def test_a_quick_model_that_is_wrong_at_one_small_size_fails_the_verdict(
    size: int, tmp_path: Path
) -> None:
    def right(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return x.cumsum(0)

    def wrong(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        number = torch.ones_like(x[:, 0]).sum()
        return x.cumsum(0) + torch.relu(1 - (number - size).abs())

    example = (torch.randn(3, 2), torch.ones(2))
    dynamic = {"x": {0: ("batch", 1, 16)}}
    assert judge(right, wrong, example, tmp_path, dynamic=dynamic).verdict == "mismatched"


def test_thorough_probes_combine_more(tmp_path: Path) -> None:
    def right(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return x.sum(1) + other.sum(1)

    example = (torch.randn(12, 12), torch.ones(12, 5))
    names = {"x": {0: ("rows", 2, 400), 1: ("width", 2, 400)}, "other": {0: ("rows", 2, 400)}}
    usual, thorough = (
        judge(right, right, example, tmp_path / str(n), dynamic=names, probes=n).samples
        for n in (8, "thorough")
    )
    assert thorough > usual


OPEN = {"x": {0: "rows", 1: "length"}, "other": {0: "rows", 1: "length"}}
FAR: dict[str, Compute] = {
    "a mask that ends at position 32": lambda x, m: torch.where(
        torch.arange(x.shape[1]) < 32, m, torch.ones_like(m)
    ),
    "the mask of another row from row 8 on": lambda x, m: torch.where(
        (torch.arange(x.shape[0]) < 8)[:, None], m, m.roll(8, 0)
    ),
    "no mask beyond 512 elements": lambda x, m: torch.where(
        torch.arange(x.shape[0])[:, None] * x.shape[1] + torch.arange(x.shape[1]) < 512,
        m,
        torch.ones_like(m),
    ),
}


@pytest.mark.parametrize("name", FAR)
def test_masks_have_holes_at_the_largest_sizes_of_all(name: str, tmp_path: Path) -> None:
    def wrong(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return masked_mean(x, FAR[name](x, mask))

    example = (torch.randn(2, 12), torch.ones(2, 12, dtype=torch.int64))
    right = judge(masked_mean, masked_mean, example, tmp_path / "right", dynamic=OPEN)
    assert right.verdict == "verified"
    found = judge(masked_mean, wrong, example, tmp_path / "wrong", dynamic=OPEN)
    assert found.verdict == "mismatched"


@pytest.mark.parametrize("least", [2, 3, 5])
def test_a_size_without_limits_may_have_a_least_one(least: int, tmp_path: Path) -> None:
    def right(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return x.unfold(1, least, 1).sum(-1)

    example = (torch.randn(2, 12), torch.ones(2))
    dynamic = {"x": {0: "rows", 1: "length"}}
    found = judge(right, right, example, tmp_path, dynamic=dynamic)
    assert found.verdict == "verified"
    assert found.basis is not None
    assert found.basis.range is not None
    assert found.basis.range.sizes["length"].sizes[0] == least
    assert not any("multiples" in text for text in found.basis.dropped)
