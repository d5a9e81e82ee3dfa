"""Constant inputs get probes with other values, and equal sizes get probes in which they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from packages.core.tests.planted_models import judge

from enginebay.models import crossed_shapes, extreme_shapes
from enginebay.params import DynamicDim
from enginebay.reference.probes import ProbeGenerator, ProbeSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")


ONE_VALUE = {
    "a mask of ones, int64": (
        torch.ones(2, 6, dtype=torch.int64),
        lambda x, m: x.masked_fill(m == 0, -9),
    ),
    "a mask of ones, bool": (
        torch.ones(2, 6, dtype=torch.bool),
        lambda x, m: torch.where(m, x, -x),
    ),
    "a mask of ones, float": (torch.ones(2, 6), lambda x, m: x * (m > 0.5)),
    "a mask of zeros": (torch.zeros(2, 6, dtype=torch.bool), lambda x, m: x.masked_fill(m, 0.0)),
    "an additive bias": (torch.zeros(2, 6), lambda x, b: x + b),
    "lengths": (
        torch.tensor([6, 6]),
        lambda x, n: x * (torch.arange(6) < n[:, None]),
    ),
    "a time step": (torch.tensor(999), lambda x, t: x + torch.sin(t * 0.1)),
    "a start position": (torch.tensor(5), lambda x, p: x + (torch.arange(6) + p) * 0.1),
    "a flag": (torch.tensor(True), lambda x, f: torch.where(f, x, x + 1)),
    "a flag in int64": (torch.tensor([1]), lambda x, f: x * f + 1),
}


@pytest.mark.parametrize("name", ONE_VALUE)
def test_an_ignored_input_of_one_value_fails_the_verdict(name: str, tmp_path: Path) -> None:
    other, right = ONE_VALUE[name]
    verification = judge(right, lambda x, _: right(x, other), (torch.randn(2, 6), other), tmp_path)
    assert verification.verdict == "mismatched"
    assert verification.basis is not None
    assert not verification.basis.untried


TABLE = torch.randn(30_000, 3, generator=torch.Generator().manual_seed(0))
STOPS = torch.tensor([5, 17, 300])
#: What the model does with a value that it compares integers with.
SPECIAL: dict[str, Callable[..., torch.Tensor]] = {
    "padding": lambda ids: TABLE[ids] * (ids != 0)[..., None],
    "an end": lambda ids: torch.where((ids == 2)[..., None], -TABLE[ids], TABLE[ids]),
    "stop words": lambda ids: TABLE[ids] * ~torch.isin(ids, STOPS)[..., None],
    "a class to ignore": lambda ids: TABLE[ids.masked_fill(ids == 255, 7)],
    "its place": lambda ids: TABLE[ids] + (ids == 9).int().argmax(-1)[:, None, None],
}


@pytest.mark.parametrize("name", SPECIAL)
def test_a_special_value_that_the_example_lacks_is_compared(name: str, tmp_path: Path) -> None:
    example = (torch.randint(301, 30_000, (2, 6)), torch.randn(2))

    def right(ids: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return SPECIAL[name](ids) + other[:, None, None]

    def wrong(ids: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return TABLE[ids] + other[:, None, None]

    assert judge(right, right, example, tmp_path / "right").verdict == "verified"
    assert judge(right, wrong, example, tmp_path / "wrong").verdict == "mismatched"


#: What the model does with floats at a constant, and the engine's mistake there.
AT_A_CONSTANT: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "missing values": (lambda x: x * (x != 0) + (x == 0), lambda x: x),
    "a threshold": (lambda x: x * (x >= 0.5), lambda x: x * (x > 0.5)),
    "a limit": (lambda x: x * (x > -1), lambda x: x * (x >= -1)),
}


@pytest.mark.parametrize("name", AT_A_CONSTANT)
def test_a_float_that_decides_at_a_constant_is_compared_there(name: str, tmp_path: Path) -> None:
    right, wrong = AT_A_CONSTANT[name]
    example = (torch.randn(4, 6), torch.randn(4, 6))
    found = judge(lambda x, y: right(x) + y, lambda x, y: wrong(x) + y, example, tmp_path / "wrong")
    assert found.verdict == "mismatched"
    assert judge(lambda x, y: right(x) + y, lambda x, y: right(x) + y, example, tmp_path).passed


def test_a_special_value_that_no_sample_has_is_named(tmp_path: Path) -> None:
    def right(ids: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return other * (ids % 97 == 96)  # the compared number is not the input

    example = (torch.randint(0, 60, (2, 6)), torch.randn(2, 6) + 3)
    found = judge(right, lambda ids, other: other * 0, example, tmp_path)
    assert found.verdict == "mismatched" or any("never True" in text for text in found.warnings)


def test_an_input_whose_other_values_the_model_refuses_is_reported(tmp_path: Path) -> None:
    def right(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        if not torch.jit.is_tracing() and not bool((other == 1).all()):
            raise ValueError("a mask of ones alone")
        return x * other

    verification = judge(right, right, (torch.randn(2, 6), torch.ones(2, 6).long()), tmp_path)
    assert verification.basis is not None
    assert verification.basis.untried == ("other",)
    assert "nothing is known about other values of 'other'" in verification.warnings


def test_every_row_of_a_mask_probe_has_zeros_and_ones() -> None:
    mask = np.ones((3, 1, 7), np.int64)
    probe, mirrored = [
        probe
        for probe in ProbeGenerator({"mask": mask}, ProbeSettings()).draw_all()
        if probe.label in ("mask: other values", "mask: mirrored")
    ]
    holes = probe.inputs["mask"]
    assert (mirrored.inputs["mask"] == holes[..., ::-1]).all()
    assert holes.dtype == np.int64
    assert (holes[..., -1] == 0).all()
    assert ((holes == 0).sum(-1) == 2).all()
    assert (holes[..., 0] == 1).all()


def test_ignored_left_padding_fails_the_verdict(tmp_path: Path) -> None:
    right = lambda x, m: x * m  # noqa: E731
    wrong = lambda x, m: x * torch.cat([torch.ones_like(m[:, :1]), m[:, 1:]], 1)  # noqa: E731
    verification = judge(right, wrong, (torch.randn(2, 6), torch.ones(2, 6).long()), tmp_path)
    assert verification.verdict == "mismatched"


@pytest.mark.parametrize("name", ["argmax", "max"])
def test_misread_left_padding_is_no_tie_that_rounding_decides(name: str, tmp_path: Path) -> None:
    def right(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        first = mask.argmax(1) if name == "argmax" else mask.max(1).indices
        return x[torch.arange(2), first]

    def wrong(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        is_left = (mask[:, 1:] >= mask[:, :-1]).all(1, keepdim=True)
        return right(x, torch.where(is_left, mask.flip(1), mask))

    example = torch.randn(2, 7), torch.ones(2, 7, dtype=torch.int64)
    verification = judge(right, wrong, example, tmp_path)
    assert (verification.verdict, verification.failed) == (
        "mismatched",
        ("other: padding at the left",),
    )


LOWEST = torch.finfo(torch.float32).min
PADDED = torch.tensor([[1.0] * 7, [1] * 4 + [0] * 3, [1] * 6 + [0]])
#: Masks that must stay zeros and ones, as floats.
FLOAT_MASKS = {
    "ones": (lambda x, m: torch.softmax(x + (1.0 - m) * LOWEST, -1), torch.ones(3, 7)),
    "zeros": (lambda x, m: torch.softmax(x + m * LOWEST, -1), torch.zeros(3, 7)),
    "padding": (lambda x, m: torch.softmax(x + (1.0 - m) * LOWEST, -1), PADDED),
    "padding of ones": (lambda x, m: torch.softmax(x + m * LOWEST, -1), 1 - PADDED),
    "a root of padding": (lambda x, m: x * m.sqrt(), PADDED),
}


@pytest.mark.parametrize("name", FLOAT_MASKS)
def test_a_float_mask_stays_zeros_and_ones_where_others_overflow(name: str, tmp_path: Path) -> None:
    right, mask = FLOAT_MASKS[name]
    dynamic = {each: {0: ("batch", 1, 8)} for each in ("x", "other")}
    done = judge(right, right, (torch.randn(3, 7), mask), tmp_path, dynamic=dynamic)
    assert done.verdict == "verified"
    assert done.basis is not None
    assert "redrawn" in done.basis.labels
    assert "other 0%..100% ones; batch 1..8" in done.basis.range.describe()
    wrong = judge(
        *(right, lambda x, m: right(x, m[:1] * torch.ones_like(m))),
        *((torch.randn(3, 7), mask), tmp_path / "wrong"),
        dynamic=dynamic,
    )
    assert wrong.verdict == "mismatched"


#: Other floats of zeros or ones, with a mistake that zeros and ones alone do not show.
NO_MASKS = {
    "a bias": (torch.add, lambda x, b: x + b.abs(), torch.zeros(3, 7)),
    "a variance of ones": (lambda x, v: x * v.sqrt(), lambda x, v: x * v, torch.ones(3, 7)),
    "a scale": (torch.mul, lambda x, s: x * s.clamp(max=1), torch.ones(3, 7)),
}


@pytest.mark.parametrize("name", NO_MASKS)
def test_other_floats_of_zeros_and_ones_are_redrawn(name: str, tmp_path: Path) -> None:
    right, wrong, value = NO_MASKS[name]
    verification = judge(right, wrong, (torch.randn(3, 7), value), tmp_path)
    assert verification.verdict == "mismatched"


@pytest.mark.parametrize("value", [torch.tensor(9), torch.tensor([9, 9, 9])])
def test_probes_of_a_constant_number_include_1(value: torch.Tensor) -> None:
    probes = ProbeGenerator({"n": value.numpy()}, ProbeSettings()).draw_all()
    (probe,) = [probe for probe in probes if probe.label == "n: other values"]
    assert probe.inputs["n"].min() == 1


def test_other_values_are_skipped_without_probes_or_after_calibration() -> None:
    mask = {"mask": np.ones((3, 7), np.int64)}
    assert ProbeGenerator(mask, ProbeSettings(0)).draw_all() == []
    assert ProbeGenerator(mask, ProbeSettings(calibrated="int8")).draw_all() == []


SQUARE = {"x": {1: ("height", 2, 64), 2: ("width", 2, 64)}}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, _: x.sum(2) / x.shape[1],  # the height instead of the width
        lambda x, _: x.sum(2) / 16,  # the example's width
    ],
)
def test_exchanged_height_and_width_fail_the_verdict(
    wrong: Callable[..., torch.Tensor], tmp_path: Path
) -> None:
    example = (torch.randn(1, 16, 16), torch.ones(1))
    right = lambda x, _: x.sum(2) / x.shape[2]  # noqa: E731
    verification = judge(right, wrong, example, tmp_path, dynamic=SQUARE)
    assert verification.verdict == "mismatched"


def test_crossed_shapes_change_each_size_alone_and_together() -> None:
    dims = {"x": {0: DynamicDim("h", 4, 64), 1: DynamicDim("w", 4, 64)}, "m": {0: DynamicDim("h")}}
    crossed = list(crossed_shapes(dims, {"x": (16, 16), "m": (16,)}))
    assert crossed[0]["x"][0] != crossed[0]["x"][1]
    assert crossed[0]["m"] == crossed[0]["x"][:1]
    assert [shapes["x"] for shapes in crossed[1:]] == [
        (crossed[0]["x"][0], 16),
        (16, crossed[0]["x"][1]),
    ]
    assert not list(crossed_shapes({"x": {0: DynamicDim("h", 4, 64)}}, {"x": (16, 16)}))


def test_extreme_shapes_include_size_zero() -> None:
    past = {"past": {1: DynamicDim("length", 0, 8)}}
    assert {"past": (1, 0)} in list(extreme_shapes(past, {"past": (1, 4)}))


def test_errors_under_an_exact_mask_fail_the_verdict(tmp_path: Path) -> None:
    lowest = torch.finfo(torch.float32).min

    def right(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x + (1.0 - mask) * lowest, -1)

    def wrong(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 1.5 + (1.0 - mask) * lowest, -1)

    verification = judge(right, wrong, (torch.randn(2, 6), torch.ones(2, 6)), tmp_path)
    assert verification.verdict == "mismatched"
    assert verification.basis is not None
    assert not verification.basis.undecided


NARROW = {
    "a pressure": lambda x, _: 101325 + x,
    "a temperature": lambda x, _: 300 + 0.005 * x,
    "one output of two": lambda x, _: (x * 2, 300 + 0.005 * x),
}


@pytest.mark.parametrize("name", NARROW)
def test_an_output_that_hardly_varies_is_unverified(name: str, tmp_path: Path) -> None:
    right = NARROW[name]

    def wrong(x: torch.Tensor, other: torch.Tensor) -> Any:
        found = right(x * 0, other)
        return (x * 2, found[1]) if isinstance(found, tuple) else found

    found = judge(right, wrong, (torch.randn(2, 6), torch.ones(1)), tmp_path)
    assert found.verdict == "unverified"
    assert "times its tolerance" in found.reason


def test_an_output_that_varies_enough_is_verified(tmp_path: Path) -> None:
    def right(x: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return 300 + x

    assert judge(right, right, (torch.randn(2, 6), torch.ones(1)), tmp_path).verdict == "verified"


UNCHANGING = {
    "a label": lambda x, _: (x * 2, x.abs().sum() > 1e6),
    "no boxes": lambda x, _: (x * 2, x[x.abs() > 1e6]),
}


@pytest.mark.parametrize("name", UNCHANGING)
def test_a_constant_output_among_others_is_reported(name: str, tmp_path: Path) -> None:
    verification = judge(
        UNCHANGING[name], UNCHANGING[name], (torch.randn(2, 6), torch.ones(1)), tmp_path
    )
    assert verification.verdict == "verified"
    assert any(
        warning.startswith("output 'output_1' is the same in") for warning in verification.warnings
    )
