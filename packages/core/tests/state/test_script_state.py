"""State of TorchScript modules, which is in C++, is found, named and restored."""

# Without `from __future__ import annotations`: torch.jit.script reads those of a class as types.
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ExportError, NotVerifiedError
from enginebay.state import ModelState

jit: Any = torch.jit
X = torch.linspace(-1, 2, 8).view(2, 4)

# torch's own warnings: their category depends on the version
pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore:`torch.jit"),
]


class InABuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.mul_(0.5).add_(x.mean(0))
        return x + self.kept


class InAReplacedBuffer(InABuffer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = self.kept * 0.5 + x.mean(0)
        return x + self.kept


class InANumber(nn.Module):
    kept: float

    def __init__(self) -> None:
        super().__init__()
        self.kept = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept += float(x.mean()) + 1.0
        return x + self.kept


class InAList(nn.Module):
    kept: list[torch.Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.kept = [torch.zeros(4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept.append(x.mean(0))
        return x + torch.stack(self.kept).sum(0)


class FromTheFirstCall(nn.Module):
    """Every later call is the same: two runs on the same inputs do not differ."""

    kept: torch.Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.kept = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = self.kept
        if kept is None:
            kept = x.mean(0)
            self.kept = kept
        return x + kept


class Inside(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x) * 2
        return out


KEEPING = (InABuffer, InAReplacedBuffer, InANumber, InAList, FromTheFirstCall)


@pytest.mark.parametrize("keeping", KEEPING)
def test_state_of_torchscript_is_named_and_restored(keeping: type[nn.Module]) -> None:
    model = jit.script(Inside(keeping()))
    state = ModelState(model)
    first = model(X)
    assert state.changed() == ["inner.kept"]
    state.restore()
    assert state.changed() == []
    torch.testing.assert_close(model(X), first)


def test_torchscript_inside_of_a_python_module_is_observed() -> None:
    model = Inside(jit.script(InABuffer()))
    state = ModelState(model)
    model(X)
    assert state.changed() == ["inner.kept"]


@pytest.mark.parametrize("keeping", [each for each in KEEPING if each is not InAList])
def test_file_that_keeps_state_is_not_verified(keeping: type[nn.Module], tmp_path: Path) -> None:
    jit.script(keeping()).save(tmp_path / "m.pt")
    with pytest.raises(NotVerifiedError, match="earlier runs: the model stores values in kept; an"):
        eb.deploy(tmp_path / "m.pt", X, backend="loopback", work_dir=tmp_path / "out")


def test_state_is_named_where_the_exporter_fails(tmp_path: Path) -> None:
    jit.script(InAList()).save(tmp_path / "m.pt")
    with pytest.raises(ExportError) as caught:
        eb.deploy(tmp_path / "m.pt", X, backend="loopback", work_dir=tmp_path / "out")
    assert str(caught.value).startswith(
        "the outputs depend on earlier runs: the model stores values in kept; an engine stores "
        "none; nor can the model be built: the model cannot be exported by the TorchScript exporter"
    )
    assert caught.value.hint == "take what the model stores as inputs, and return it as outputs"


def test_the_callers_module_is_as_before(tmp_path: Path) -> None:
    model = jit.script(InABuffer())
    with pytest.raises(NotVerifiedError):
        eb.deploy(model, X, backend="loopback", work_dir=tmp_path / "out")
    assert not model.kept.any()


def test_constants_of_torchscript_are_left_alone() -> None:
    class Padded(nn.Module):
        __constants__ = ("sizes",)

        def __init__(self) -> None:
            super().__init__()
            self.sizes = (1, 2)
            self.register_buffer("kept", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.kept += 1
            return nn.functional.pad(x, self.sizes)

    model = jit.script(Padded())
    state = ModelState(model)
    model(X)
    assert state.changed() == ["kept"]
    state.restore()
    assert model.kept == 0
