"""A model that never returns on a probe input is deployed without it, and the verdict names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ModelError
from enginebay.reference import recorder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor

pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning"),
]

X = torch.linspace(1, 2, 8).view(2, 4)


def grow(x: Tensor) -> Tensor:
    while x.norm() < 1:
        x = x * 2
    return x


def count_up(x: Tensor) -> Tensor:
    total = torch.zeros(())
    while float(total) < 1:
        total = total + x.abs().sum()
    return x + 1


def halve(x: Tensor) -> Tensor:
    total = x.abs().sum()
    while bool((x / total).abs().sum() != (x / total).abs().sum()):
        x = x / 2
    return x * 3


LOOPS = {"a norm": grow, "a sum": count_up, "NaN": halve}


class Model(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def deploy(function: Callable[[Tensor], Tensor], x: Tensor, folder: Path, **options: object) -> str:
    verification = eb.deploy(
        Model(function),
        x,
        backend="loopback",
        work_dir=folder / "out",
        export={"exporter": "torchscript"},
        verify={"allow_mismatch": True, **options},
    ).verification
    return str(verification)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_probe_on_which_a_loop_never_ends_is_left_out_by_name(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PROBE_SECONDS", 0.5)
    text = " ".join(deploy(LOOPS[loop], X, tmp_path).split())
    raised = "the model's forward raised TimeoutError: more than"
    assert f"zeros: {raised}" in text
    assert "s of processor time (reference/test_endless_runs.py:" in text


def test_an_example_on_which_a_loop_never_ends_is_an_error_after_the_time_limit(
    tmp_path: Path,
) -> None:
    with pytest.raises(ModelError, match=r"raised TimeoutError: more than 0.2 s of processor time"):
        deploy(grow, torch.zeros(2, 4), tmp_path, timeout=0.2)


def test_a_requested_size_has_the_callers_time_limit(tmp_path: Path) -> None:
    def loop(x: Tensor) -> Tensor:
        return x if len(x) == 2 else grow(x * 0)

    with pytest.raises(
        ModelError, match=r"fails at the sizes .* more than 0.5 s of processor time"
    ):
        eb.deploy(
            Model(loop),
            X,
            backend="loopback",
            work_dir=tmp_path / "out",
            dynamic={"x": {0: ("batch", 1, 2)}},
            verify={"timeout": 0.5},
        )
