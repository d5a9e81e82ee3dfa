"""A verdict reports lost NaN and infinity, but does not depend on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOST = (
    'on inputs with NaN or infinity the engine differs from the model: "output": '
    "expected nan, found 0.0"
)


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def lose_nan() -> eb.RewriterSet:
    """Replace ReLU by one that turns NaN into zero, like that of many engines."""
    rewriters = eb.RewriterSet()

    @rewriters.function("torch.relu")
    def relu(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, 0.0)

    return rewriters


def refuse_nan(x: torch.Tensor) -> torch.Tensor:
    if not torch.jit.is_tracing() and bool(x.isnan().any()):
        raise ValueError("numbers alone")
    return torch.relu(x)


def halve(x: torch.Tensor) -> torch.Tensor:
    while not torch.jit.is_tracing() and bool(x.abs().max() > 1e9):  # endless for infinity
        x = x / 2
    return torch.relu(x)


def deploy(function: Callable[..., Any], folder: Path, **options: Any) -> eb.Deployment:
    export = eb.ExportOptions(rewriters=[lose_nan()])
    return eb.deploy(
        Model(function), torch.randn(2, 6), work_dir=folder / "out", export=export, **options
    )


@pytest.mark.usefixtures("loopback")
def test_lost_nan_is_reported_without_changing_the_verdict(tmp_path: Path) -> None:
    deployment = deploy(torch.relu, tmp_path)  # a Python warning would be an error here
    assert deployment.verdict == "verified"
    assert deployment.verification.warnings == (LOST,)
    again = eb.verify(deployment.artifact)
    assert (again.verdict, again.non_finite) == ("verified", LOST)
    anew = eb.verify(deployment.artifact, reference=Model(torch.relu))
    assert (anew.verdict, anew.non_finite) == ("verified", LOST)
    given = eb.verify(deployment.artifact, deployment.artifact.samples())
    assert (given.verdict, given.non_finite) == ("verified", LOST)


@pytest.mark.usefixtures("loopback")
def test_lost_nan_is_reported_for_outputs_of_only_nan(tmp_path: Path) -> None:
    assert deploy(lambda x: torch.relu(x.sum()), tmp_path).verification.non_finite == LOST


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2,  # the engine returns NaN too
        lambda x: torch.relu(torch.nan_to_num(x)),
        refuse_nan,
        halve,
    ],
)
def test_without_lost_nan_no_difference_is_reported(function: Any, tmp_path: Path) -> None:
    assert not deploy(function, tmp_path).verification.non_finite


@pytest.mark.usefixtures("loopback")
def test_nan_inputs_do_not_verify_a_constant_output(tmp_path: Path) -> None:
    verify = eb.VerifyOptions(allow_unverified=True)
    assert deploy(lambda x: x * 0, tmp_path, verify=verify).verdict == "unverified"


@pytest.fixture
def frail() -> Iterator[None]:
    source = (Path(__file__).parents[1] / "frail_backend.py").read_text()
    with temporary_backend("frail", source):
        yield


@pytest.mark.usefixtures("frail")
@pytest.mark.parametrize("name", ["x", "raises"])
def test_engines_that_fail_on_nan_are_verified_with_a_warning(name: str, tmp_path: Path) -> None:
    example = {name: torch.randn(2, 6)}
    function = Model(torch.neg)
    deployment = eb.deploy(
        function,
        tuple(example.values()),
        backend="frail",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(input_names=[name]),
    )
    assert deployment.verdict == "verified"
    assert deployment.verification.non_finite == (
        "the engine raises an error or crashes on inputs with NaN or infinity"
    )


def count(function: Callable[..., Any], folder: Path, name: str = "narrow") -> eb.Deployment:
    return eb.deploy(
        Model(function),
        (torch.arange(6).reshape(2, 3),),
        backend="frail",
        work_dir=folder / "out",
        export=eb.ExportOptions(input_names=[name]),
    )


@pytest.mark.usefixtures("frail")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x // 2,
        lambda x: torch.cat([x.clamp(min=3), x], 1).reshape(-1)[1:],
        lambda x: torch.stack([x, (x > 2**31 - 1) * 1]),
    ],
)
def test_integers_that_an_engine_cuts_to_32_bits_are_reported(
    function: Any, tmp_path: Path
) -> None:
    deployment = count(function, tmp_path)
    assert deployment.verdict == "verified"
    text = deployment.verification.non_finite
    assert text.startswith("on inputs with integers beyond 2³¹ the engine differs from the model:")
    assert eb.verify(deployment.artifact).non_finite == text


@pytest.mark.usefixtures("frail")
def test_an_engine_of_64_bits_agrees_on_large_integers(tmp_path: Path) -> None:
    assert not count(lambda x: x * 3 - 1, tmp_path, "x").verification.non_finite


@pytest.mark.usefixtures("frail")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.arange(9)[x] + 1,
        lambda x: nn.functional.one_hot(x + 1, 9),  # its size follows from the largest in PyTorch
        lambda x: x.float() / 3,
        lambda x: x.cumsum(0),
    ],
)
def test_no_large_integer_is_given_where_one_is_more_than_a_number(
    function: Any, tmp_path: Path
) -> None:
    assert not count(function, tmp_path).verification.non_finite
