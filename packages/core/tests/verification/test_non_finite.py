"""What an engine makes of NaN and infinity is told with its verdict, and decides nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.testing import temporary_backend

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


def losing() -> eb.RewriterSet:
    """A ReLU that makes zeros of NaN, as that of many engines."""
    rewriters = eb.RewriterSet()

    @rewriters.function("torch.relu")
    def relu(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, 0.0)

    return rewriters


def finite(x: torch.Tensor) -> torch.Tensor:
    if not torch.jit.is_tracing() and bool(x.isnan().any()):
        raise ValueError("numbers alone")
    return torch.relu(x)


def halved(x: torch.Tensor) -> torch.Tensor:
    while not torch.jit.is_tracing() and bool(x.abs().max() > 1e9):  # for ever, from infinity
        x = x / 2
    return torch.relu(x)


def deployed(function: Callable[..., Any], folder: Path, **options: Any) -> eb.Deployment:
    export = eb.ExportOptions(rewriters=[losing()])
    return eb.deploy(
        Model(function), torch.randn(2, 6), work_dir=folder / "out", export=export, **options
    )


@pytest.mark.usefixtures("loopback")
def test_lost_nan_is_told_and_decides_nothing(tmp_path: Path) -> None:
    deployment = deployed(torch.relu, tmp_path)  # and no Python warning, which would be an error
    assert deployment.verdict == "verified"
    assert deployment.verification.warnings == (LOST,)
    again = eb.verify(deployment.artifact)
    assert (again.verdict, again.non_finite) == ("verified", LOST)
    anew = eb.verify(deployment.artifact, reference=Model(torch.relu))
    assert (anew.verdict, anew.non_finite) == ("verified", LOST)
    given = eb.verify(deployment.artifact, deployment.artifact.samples())
    assert (given.verdict, given.non_finite) == ("verified", LOST)


@pytest.mark.usefixtures("loopback")
def test_an_output_of_nan_alone_is_told_as_well(tmp_path: Path) -> None:
    assert deployed(lambda x: torch.relu(x.sum()), tmp_path).verification.non_finite == LOST


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2,  # it keeps NaN
        lambda x: torch.relu(torch.nan_to_num(x)),
        finite,
        halved,
    ],
)
def test_nothing_is_told_where_nothing_is_lost(function: Any, tmp_path: Path) -> None:
    assert not deployed(function, tmp_path).verification.non_finite


@pytest.mark.usefixtures("loopback")
def test_nan_proves_nothing_about_an_output_that_never_changes(tmp_path: Path) -> None:
    verify = eb.VerifyOptions(allow_unverified=True)
    assert deployed(lambda x: x * 0, tmp_path, verify=verify).verdict == "unverified"


@pytest.fixture
def frail() -> Iterator[None]:
    source = (Path(__file__).parents[1] / "frail_backend.py").read_text()
    with temporary_backend("frail", source):
        yield


@pytest.mark.usefixtures("frail")
@pytest.mark.parametrize("name", ["x", "raises"])
def test_an_engine_that_does_not_survive_nan_is_verified_without(name: str, tmp_path: Path) -> None:
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
        "the engine raises an error or crashes on inputs with NaN and infinity"
    )
