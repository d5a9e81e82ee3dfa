"""The first place where an engine differs from PyTorch, on the backend without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import InputError, UsageError
from enginebay_lab.diagnosis import module_search

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")

#: A rewriter that is wrong by a percent of what a module computes.
SLIPS = eb.RewriterSet()


@SLIPS.function("torch.nn.functional.gelu")
def _gelu(ctx: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return ctx.origin_func(x, *args, **kwargs) * 1.01


#: A rewriter that is wrong between two modules.
BETWEEN = eb.RewriterSet()


@BETWEEN.function("torch.Tensor.mean")
def _mean(ctx: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return ctx.origin_func(x, *args, **kwargs) + 0.25


class Block(nn.Module):
    """A residual block; its activation may work in place."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.act(self.conv(x))


class Net(nn.Module):
    """Blocks, a recurrent layer with a nested result, and a head that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(Block(nn.ReLU(inplace=True)), Block(nn.GELU()), Block(nn.SiLU()))
        self.rnn = nn.LSTM(4, 4, batch_first=True)
        self.head = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, _ = self.rnn(self.body(x).mean(3).transpose(1, 2))
        return self.head(self.head(rows))


def build() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randn(1, 4, 6, 6)


def short() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Sigmoid()).eval(), torch.randn(1, 3)


class Absolute(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs()


def integers() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Flatten(), Absolute()).eval(), torch.arange(6).reshape(2, 3) - 3


def deployed(
    folder: Path,
    *rewriters: eb.RewriterSet,
    model: Any = build,
    verify: dict[str, Any] | None = None,
    **given: Any,
) -> eb.Artifact:
    return eb.deploy(
        *model(),
        backend="loopback",
        work_dir=folder / "net",
        export={"exporter": "torchscript", "rewriters": rewriters},
        verify={"probes": 1, "allow_mismatch": True, **(verify or {})},
        **given,
    ).artifact


def test_a_wrong_rewriter_is_found_in_a_model_of_integers(tmp_path: Path) -> None:
    slips = eb.RewriterSet()
    slips.function("torch.Tensor.abs")(lambda ctx, x: ctx.origin_func(x) + 1)
    artifact = deployed(tmp_path, slips, model=integers)
    found = lab.bisect(artifact, integers()[0], rewriters=[slips])
    assert (found.module, found.step, found.alone) == ("1", "export", 1.0)


def test_a_wrong_rewriter_is_found_in_its_module(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, SLIPS)
    found = lab.bisect(artifact, build()[0], rewriters=[SLIPS])
    assert (found.found, found.module, found.step) == (True, "body.1.act", "export")
    assert (found.node, found.operator) == ("/model/body/body.1/act/Mul", "Mul")
    assert found.rewriters[0] == "torch.nn.functional.gelu"
    places = {place.title: place for place in found.places}
    assert not places["body.1.conv"].wrong
    assert places["body.1.act"].wrong_alone
    assert places["rnn"].wrong
    assert places["rnn"].wrong_alone is False  # it only received wrong inputs
    assert places["head (call 2)"].wrong
    assert found.alone == pytest.approx(places["body.1.act"].accumulated, rel=0.1)
    assert found.reason.startswith(
        "loopback differs from PyTorch at 'body.1.act', node '/model/body/body.1/act/Mul' (Mul): "
        "off by"
    )
    assert found.reason.endswith(
        "the exported graph is wrong there, because of a rewriter (torch.nn.functional.gelu) or "
        "the exporter"
    )
    assert found.engines == 4


def test_an_error_between_modules_belongs_to_the_model(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, BETWEEN)
    found = lab.bisect(artifact, build()[0], rewriters=[BETWEEN])
    assert (found.found, found.module, found.step) == (True, "", "export")
    assert next(place.module for place in found.places if place.wrong) == "rnn"
    assert "at the model's own code, node " in found.reason


def test_windows_limit_the_outputs_of_one_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_search, "_GROUP_OUTPUTS", 3)
    monkeypatch.setattr(module_search, "_ALONE_MODULES", 1)
    found = lab.bisect(deployed(tmp_path, SLIPS), build()[0], rewriters=[SLIPS])
    assert found.module == "body.1.act"
    assert len([place for place in found.places if place.accumulated is not None]) == 6


def test_a_wrong_engine_is_found_at_its_first_node(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, params={"gain": 1.5})
    found = lab.bisect(artifact, short()[0])
    assert (found.module, found.node) == ("0", "/model/model.0/Gemm")
    assert (found.step, found.together, found.rewriters) == ("engine", (), ())
    assert found.reason.endswith("the exported graph is right there, but the engine is wrong")


class Whole(nn.Module):
    """A replacement that calls none of the original's modules, and is wrong."""

    def __init__(self, ctx: Any, module: Block) -> None:
        super().__init__()
        self.weight, self.bias = module.conv.weight, module.conv.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.conv2d(x, self.weight, self.bias, padding=1)


def test_modules_that_a_rewriter_removes_are_not_searched(tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()
    rewriters.module(f"{__name__}.Block")(Whole)
    artifact = deployed(tmp_path, rewriters)
    found = lab.bisect(artifact, build()[0], rewriters=[rewriters])
    assert (found.module, found.step) == ("body.0", "export")
    assert [place.module for place in found.places][:2] == ["body.0", "body.1"]


class Shy(nn.Module):
    """A module that runs in its model only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.at_home = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.at_home:
            raise RuntimeError("not alone")
        x = self.first(x)
        return self.second(x + x.mean(-1, keepdim=True))


class Home(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shy = Shy()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shy.at_home = True
        try:
            return self.shy(x).sigmoid()
        finally:
            self.shy.at_home = False


def test_a_module_that_does_not_run_alone_is_named_as_the_culprit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Home().eval()
    artifact = deployed(
        tmp_path, BETWEEN, model=lambda: (model, torch.randn(1, 3)), verify={"probes": 0}
    )
    found = lab.bisect(artifact, model, rewriters=[BETWEEN])
    assert (found.module, found.step, found.alone, found.node) == ("shy", "unknown", None, "")
    assert found.reason.startswith("loopback differs from PyTorch at 'shy': off by ")
    assert found.reason.endswith(
        " when the engine runs the model from its inputs; this part could not be measured alone"
    )


def test_nothing_is_found_in_a_correct_engine(tmp_path: Path) -> None:
    found = lab.bisect(deployed(tmp_path, model=short), short()[0])
    assert (found.found, found.step, found.engines) == (False, "none", 1)
    assert found.reason == (
        "a rebuilt engine has no wrong output on this sample; the artifact may differ because of "
        "its dynamic dimensions, its other samples, or your own rewriters (--rewriters)"
    )


def test_another_engine_can_be_the_reference(tmp_path: Path) -> None:
    wrong = deployed(tmp_path, model=short, params={"gain": 1.5})
    other = deployed(tmp_path / "other", model=short)
    found = lab.bisect(wrong, short()[0], against=other)
    assert found.module == "0"
    assert found.reference == f"the engine of '{other.path}'"


def test_the_worst_sample_is_searched(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, params={"gain": 1.5}, verify={"probes": 3})
    verification = artifact.manifest.verification
    assert verification is not None
    worst = max(verification.outputs, key=lambda output: output.badness).sample
    assert lab.bisect(artifact, short()[0]).sample == worst != "example"
    own = [{"input": np.full((1, 3), value, np.float32)} for value in (0, 9, 1)]
    assert lab.bisect(artifact, short()[0], own[0]).sample == "example"
    assert lab.bisect(artifact, short()[0], own).sample == "item 1"


def test_wrong_inputs_are_refused(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, verify={"probes": 0})
    with pytest.raises(
        InputError, match=r"^unknown input 'y': the model takes input\nhint: [^\n]+$"
    ):
        lab.bisect(artifact, short()[0], {"y": np.ones((1, 3), np.float32)})
    with pytest.raises(InputError, match=r"1, 3"):
        lab.bisect(artifact, short()[0], np.ones((1, 4), np.float32))


class Chance(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


def test_a_random_model_is_not_searched(tmp_path: Path) -> None:
    found = lab.bisect(
        deployed(tmp_path, model=lambda: (Chance(), torch.ones(1, 3)), verify={"probes": 0}),
        Chance(),
    )
    assert not found.found
    assert found.reason.startswith("the model is not deterministic, a second run differs: ")


def test_the_wrong_node_of_an_onnx_file_is_found(tmp_path: Path) -> None:
    model, x = short()
    path = eb.export(
        model, x, path=tmp_path / "net.onnx", options=eb.ExportOptions(exporter="torchscript")
    ).path
    artifact = eb.deploy(
        *(path, {"input": x.numpy()}),
        backend="loopback",
        work_dir=tmp_path / "net",
        params={"gain": 1.5},
        verify=eb.VerifyOptions(allow_mismatch=True, probes=0),
    ).artifact
    found = lab.bisect(artifact)
    assert (found.node, found.module, found.step) == (
        *("/model/model.0/Gemm", "0"),
        "engine",
    )


def test_an_artifact_of_a_python_object_does_not_know_its_model(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, verify={"probes": 0})
    with pytest.raises(UsageError) as raised:
        lab.bisect(artifact)
    message = f"'{artifact.path}' does not record which model it was made from"
    assert (str(raised.value), raised.value.hint) == (message, "name the model: --model MODEL")


def test_the_model_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Linear(2, 2)).eval(), torch.ones(1, 2)\n"
    )
    monkeypatch.chdir(tmp_path)
    artifact = eb.deploy(
        "net.py:build",
        backend="loopback",
        work_dir=tmp_path / "net",
        params={"gain": 2.0},
        export={"exporter": "torchscript"},
        verify={"allow_mismatch": True, "probes": 0},
    ).artifact
    assert artifact.manifest.model == f"{tmp_path}/net.py:build"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert lab.bisect(artifact).module == "0"
    (tmp_path / "net.py").unlink()
    with pytest.raises(UsageError) as raised:
        lab.bisect(artifact)
    model = f"{tmp_path}/net.py"
    message = f"'{artifact.path}' was made from '{model}:build', but '{model}' does not exist"
    assert (str(raised.value), raised.value.hint) == (message, "name the model: --model MODEL")


def test_a_model_that_was_cut_is_refused(tmp_path: Path) -> None:
    class Marked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return eb.mark(x.relu(), "middle").sigmoid()

    artifact = eb.deploy(
        *(Marked(), torch.ones(1, 2)),
        backend="loopback",
        work_dir=tmp_path / "net",
        export=eb.ExportOptions(cuts=["middle"], exporter="torchscript"),
        verify=eb.VerifyOptions(probes=0),
    ).artifact
    with pytest.raises(
        UsageError, match=r"^'.*' has 2 engines; bisect requires a single engine\nhint: [^\n]+$"
    ):
        lab.bisect(artifact, Marked())
