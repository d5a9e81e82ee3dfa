"""All obstacles of a model are listed at once, with their modules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import torch
from packages.core.tests.testing import small_engine

import enginebay as eb
import enginebay_lab as lab
from enginebay.authors import forget_plugins
from enginebay.errors import BackendNotFoundError, ModelError, UsageError
from enginebay_testing import temporary_backend
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

    from packages.core.tests.cli.conftest import Run

    Capture = pytest.CaptureFixture[str]

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

LOWERED = """
import torch
from torch import nn

class Roots(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x) + torch.special.bessel_j0(-x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), Roots())
        self.head = Roots()
    def forward(self, x):
        return torch.special.i1(self.head(self.body(x)))

def build():
    return Net().eval(), torch.ones(2, 3)
"""

REWRITERS = """
import enginebay as eb

mine = eb.RewriterSet()

@mine.function("torch.Tensor.relu")
def clamped(ctx, x):
    return x.clamp(min=0)

number = 3
"""

TWIN = (
    "from enginebay_testing.loopback import *\n"
    "from enginebay_testing import loopback\n"
    "to_backend, build_wrapper, check_env, unsupported_operators = loopback.to_backend, "
    "loopback.build_wrapper, loopback.check_env, loopback.unsupported_operators\n"
    "@eb.hookimpl\n"
    "def backend_info(): return eb.BackendInfo(name='twin', irs=('onnx',), params=LoopbackParams)\n"
)


def test_all_unsupported_operators_are_listed_with_their_modules(
    loopback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "planted.py").write_text(PLANTED)
    ran = call_command(capfd, "preview", "planted.py:build", "--backend", loopback, "--json")
    assert ran.code == 1
    (row,) = ran.document["preview"]["backends"]
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
        preview = lab.preview(model, torch.ones(2), backends=[loopback])
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
        preview = lab.preview(Branches(), example, backends=[loopback])
        assert [obstacle.operator for obstacle in preview.backends[0].obstacles] == [
            "if x.sum() > 0:",
            "if x.sum() < 0:",
        ]


def test_model_without_obstacles_is_clear(loopback: str) -> None:
    class Local(torch.nn.Module):  # no child process can import it
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.logaddexp(x, x)

    preview = lab.preview(Local(), torch.ones(2), backends=[loopback])
    assert preview.clear
    assert preview.backends[0].rewritten == {"torch.logaddexp": 1}


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_have_no_obstacles(loopback: str, layer: type[torch.nn.RNNBase]) -> None:
    """The fake kernel of oneDNN's layer has other shapes than the kernel in ``draft_export``."""
    preview = lab.preview(layer(4, 6).eval(), torch.ones(5, 1, 4), backends=[loopback])
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
        preview = lab.preview(str(file), backends=["silent", "dying"])
    assert not preview.clear
    assert (
        preview.backends[0].error
        == "backend 'silent' does not implement the hook unsupported_operators"
    )
    assert preview.backends[1].error.startswith("the engine of backend 'dying' ended with SIGABRT")


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
            "enginebay_lab.obstacles.preview_model.installed_backends", lambda: installed
        )
        assert [row.backend for row in lab.preview(str(file)).backends] == [loopback]
        installed.remove(loopback)
        with pytest.raises(UsageError, match=r"^no engine is installed"):
            lab.preview(str(file))


def test_invalid_preview_calls_raise_errors(loopback: str, capfd: Capture) -> None:
    with pytest.raises(BackendNotFoundError):
        lab.preview(torch.nn.ReLU(), torch.ones(1), backends=["no-such-engine"])

    with pytest.raises(UsageError, match=r"^invalid timeout of -1 seconds: expected more than 0$"):
        lab.preview(torch.nn.ReLU(), torch.ones(1), backends=[loopback], timeout=-1)
    assert call_command(capfd, "preview", "net.py:build", "--backend", ",").code == 2

    class Raising(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    with pytest.raises(ModelError, match=r"^the model's forward raised ValueError: no \(\S+\)$"):
        lab.preview(Raising(), torch.ones(1), backends=[loopback])


def test_an_input_dtype_that_the_backend_lacks_is_its_rows_error(
    tmp_path: Path, loopback: str
) -> None:
    path = tmp_path / "relu.onnx"
    eb.export(torch.nn.ReLU(), torch.ones(1, dtype=torch.int8), path=path)
    (row,) = lab.preview(path, backends=[loopback]).backends
    assert row.error == (
        "input 'input' has dtype int8, but backend 'loopback' supports float16, float32, float64, "
        "int32, int64, bool"
    )


def test_a_preview_prints_what_its_command_prints(cli: Run) -> None:
    preview = lab.preview("net.py:build", backends=["loopback"])
    line = ("preview", "net.py:build", "--backend", "loopback")
    assert f"{preview}\n" == cli(*line).out
    assert repr(preview) == "<Preview of net.py:build, clear, on 1 backends>"
    assert preview.to_dict() == cli(*line, "--json").document


def test_rewriters_of_a_file_are_counted_and_wrong_ones_refused(cli: Run, here: Path) -> None:
    (here / "mine.py").write_text(REWRITERS)
    line = ("preview", "net.py:build", "--backend", "loopback", "--rewriters")
    assert "rewritten: torch.Tensor.relu (" in cli(*line, "mine.py:mine").out
    ran = cli(*line, "mine.py:number")
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert "int" in ran.err


@pytest.mark.parametrize(
    ("name", "message"),
    [("biuld", "there is no 'biuld' in 'slow.py'"), ("Net", "has no example inputs")],
)
def test_a_wrong_name_is_refused_before_the_file_runs(
    here: Path, loopback: str, name: str, message: str
) -> None:
    lines = "from torch import nn\nclass Net(nn.Module): ...\ndef build(): ...\nraise ValueError\n"
    (here / "slow.py").write_text(lines)
    with pytest.raises(UsageError, match=message):
        lab.preview(f"slow.py:{name}", backends=[loopback])


def test_operators_that_a_backend_does_not_list_are_lowered_or_obstacles(
    tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "net.py").write_text(LOWERED)
    model = f"{tmp_path}/net.py:build"
    with temporary_backend("small", small_engine.__name__):
        ran = call_command(capfd, "preview", model, "--backend", "small", "--json")
        shown = call_command(capfd, "preview", model, "--backend", "small")
    assert (ran.code, shown.code) == (1, 1)
    assert "the engine does not support it" in shown.out
    (row,) = ran.document["preview"]["backends"]
    assert row == {
        "backend": "small",
        "ir": "exported_program",
        "obstacles": [
            {
                "operator": "aten::special_bessel_j0",
                "modules": ["body.2", "head"],
                "reason": "the engine does not support it",
                "rewriter": "",
            },
            {
                "operator": "aten::special_i1",
                "modules": [],
                "reason": "the engine does not support it",
                "rewriter": "",
            },
        ],
        "rewritten": {"aten.sigmoid": 1},
        "error": "",
    }


def test_broken_rewriters_of_enginebay_end_a_preview_with_one_error(
    loopback: str, tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\ndef build(): return torch.nn.ReLU(), torch.ones(1, 2)\n"
    )
    path = eb.export(torch.nn.ReLU(), torch.ones(1, 2), path=tmp_path / "relu.onnx").path
    broken = temporary_backend(
        "rewriters",
        "raise ValueError('no')",
        group="enginebay.plugins",
        distribution="enginebay",
        version=eb.__version__,
    )
    with broken, temporary_backend("twin", TWIN):
        forget_plugins()
        model = f"{tmp_path}/net.py:build"
        ran = call_command(capfd, "preview", model, "--backend", f"{loopback},twin")
        assert lab.preview(path, backends=[loopback]).clear
    forget_plugins()
    assert (ran.code, ran.out) == (3, "")
    assert re.fullmatch(
        r"error: plugin 'rewriters' of enginebay \S+ cannot be used: importing '\w+' raised "
        r"ValueError: no\nhint: pip install .*\n",
        ran.err,
    )
