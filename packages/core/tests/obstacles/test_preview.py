"""All obstacles of a model are listed at once, with their modules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

import enginebay as eb
from enginebay.cli import main
from enginebay.errors import BackendNotFoundError, ModelError, UsageError
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from pathlib import Path

PLANTED = """
import torch
from torch import nn

@torch.library.custom_op("planted::wibble", mutates_args=())
def wibble(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@wibble.register_fake
def _(x):
    return torch.empty_like(x)

@torch.library.custom_op("planted::wobble", mutates_args=())
def wobble(x: torch.Tensor) -> torch.Tensor:
    return x + 1

class Wibble(nn.Module):
    def forward(self, x):
        return wibble(x)

class Wobble(nn.Module):
    def forward(self, x):
        return wobble(x)

class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 3
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), Wibble(), Wobble())
        self.l = Branch()
    def forward(self, x):
        return self.l(self.body(x))

def build():
    return Net().eval(), torch.ones(1, 3)
"""


def test_all_unsupported_operators_are_listed_with_their_modules(
    loopback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "planted.py").write_text(PLANTED)
    assert main(["preview", "planted.py:build", "--backend", loopback, "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["preview"]["backends"]
    obstacles = {each["operator"]: (each["modules"], each["reason"]) for each in row["obstacles"]}
    assert (row["error"], row["ir"]) == ("", "onnx")
    assert obstacles == {
        "planted::wibble": (["body.1"], "the ONNX exporter has no translation"),
        "planted::wobble": (
            ["body.2"],
            (
                "torch.export cannot run the operator: there is no fake kernel; "
                "the ONNX exporter has no translation"
            ),
        ),
        "if x.sum() > 0:": (
            ["l"],
            "torch.export cannot branch on values, at planted.py:27",
        ),
    }


def test_preview_evaluates_branches_with_the_real_weights(
    loopback: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Choice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.second = self.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.weight.sum().item() == 2:
                return x * self.second
            return torch.special.airy_ai(x)  # no exporter has it

    # Memory that torch does not initialise contains NaN.
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    model = Choice()
    try:
        preview = eb.preview(model, torch.ones(2), backends=[loopback])
    finally:
        torch.use_deterministic_algorithms(False)
    assert model.second is model.weight
    assert isinstance(model.weight, torch.nn.Parameter)
    assert [obstacle.operator for obstacle in preview.backends[0].obstacles] == [
        "if self.weight.sum().item() == 2:"
    ]


def test_preview_lists_every_branch_whichever_way_it_goes(loopback: str) -> None:
    class Branches(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                x = x * 3
            if x.sum() < 0:
                x = x * 5
            return x + x.sum().item()

    for example in (torch.ones(2), -torch.ones(2)):
        preview = eb.preview(Branches(), example, backends=[loopback])
        assert [obstacle.operator for obstacle in preview.backends[0].obstacles] == [
            "if x.sum() > 0:",
            "if x.sum() < 0:",
        ]


def test_model_without_obstacles_is_clear(
    loopback: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Local(torch.nn.Module):  # no child process can import it
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.logaddexp(x, x)

    preview = eb.preview(Local(), torch.ones(2), backends=[loopback])
    assert preview.clear
    assert preview.backends[0].rewritten == {"torch.logaddexp": 1}


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_have_no_obstacles(loopback: str, layer: type[torch.nn.RNNBase]) -> None:
    """The fake kernel of oneDNN's layer has other shapes than the kernel in ``draft_export``."""
    preview = eb.preview(layer(4, 6).eval(), torch.ones(5, 1, 4), backends=[loopback])
    assert preview.clear, preview


def test_crashed_or_silent_backend_is_a_row_with_its_error(tmp_path: Path) -> None:
    head = "from enginebay_testing.loopback import *\nfrom enginebay_testing import loopback\n"
    info = (
        "@eb.hookimpl\ndef backend_info():\n"
        "    return eb.BackendInfo(name={!r}, irs=('onnx',), params=LoopbackParams)\n"
        "to_backend, build_wrapper = loopback.to_backend, loopback.build_wrapper\n"
    )
    dying = "@eb.hookimpl\ndef unsupported_operators(request):\n    import os\n    os.abort()\n"
    silent = head + info.format("silent") + "del unsupported_operators\n"
    file = tmp_path / "relu.onnx"
    eb.export(torch.nn.ReLU(), torch.ones(1, 3), path=file)
    with (
        temporary_backend("silent", silent),
        temporary_backend("dying", head + info.format("dying") + dying),
    ):
        preview = eb.preview(str(file), backends=["silent", "dying"])
    assert not preview.clear
    assert (
        preview.backends[0].error
        == "backend 'silent' does not implement the hook unsupported_operators"
    )
    assert preview.backends[1].error.startswith("the preview on backend 'dying' ended with SIGABRT")


def test_preview_asks_only_installed_engines_by_default(
    tmp_path: Path, loopback: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = (
        "from enginebay_testing.loopback import *\n"
        "@eb.hookimpl\ndef backend_info():\n"
        "    return eb.BackendInfo(name='absent', irs=('onnx',), params=LoopbackParams,\n"
        "        runtime_distributions=('no-such-engine>=1',))\n"
    )
    file = tmp_path / "relu.onnx"
    eb.export(torch.nn.ReLU(), torch.ones(1, 3), path=file)
    with temporary_backend("absent", absent):
        installed = ["absent", loopback]
        monkeypatch.setattr(
            "enginebay.obstacles.preview_model.installed_backends", lambda: installed
        )
        assert [row.backend for row in eb.preview(str(file)).backends] == [loopback]
        installed.remove(loopback)
        with pytest.raises(UsageError, match=r"^no engine is installed"):
            eb.preview(str(file))


def test_invalid_preview_calls_raise_errors(loopback: str) -> None:
    with pytest.raises(BackendNotFoundError):
        eb.preview(torch.nn.ReLU(), torch.ones(1), backends=["no-such-engine"])

    with pytest.raises(UsageError, match=r"^invalid timeout of -1 seconds: expected more than 0$"):
        eb.preview(torch.nn.ReLU(), torch.ones(1), backends=[loopback], timeout=-1)
    assert main(["preview", "net.py:build", "--backend", ","]) == 2

    class Raising(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    with pytest.raises(ModelError, match=r"^the model's forward raised ValueError: no \(\S+\)$"):
        eb.preview(Raising(), torch.ones(1), backends=[loopback])
