"""``inspect`` says what a file of torch contains; what cannot be read is named."""

# Without `from __future__ import annotations`: torch.jit.script reads those of a class as types.
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from torch import nn

from enginebay.cli import main
from enginebay.errors import ModelSourceError
from enginebay.ir import read_ir

jit: Any = torch.jit

# torch's own warnings: their category depends on the version
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit")


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    @jit.export
    def encode(self, x: torch.Tensor, times: int) -> torch.Tensor:
        out = self.layer(x)
        for _ in range(times):
            out = torch.relu(out)
        return out


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, times: int, minus: bool = False) -> torch.Tensor:
        out = self.layer(x) * times
        return -out if minus else out


def test_torchscript_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.jit"
    jit.script(Model()).save(path)
    assert main(["inspect", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "method     forward(x: Tensor, times: int, minus: bool = False) -> Tensor\n" in printed
    assert "operators  1 aten::linear, 1 aten::mul, 1 aten::neg\n" in printed
    assert "weights    60 B float32\n" in printed
    assert "saved in training mode; it is deployed in evaluation mode" in printed
    assert f"enginebay deploy {path} --input x=1x3x224x224 --input times=1\n" in printed


def test_torchscript_without_forward_is_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.pt"
    jit.script(Encoder()).save(path)
    assert main(["inspect", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "method   encode(x: Tensor, times: int) -> Tensor\n" in printed
    assert f"enginebay deploy {path}:encode\n" in printed


def test_program_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 3).half(), (torch.ones(2, 4).half(),)), path)
    assert main(["inspect", str(path), "--json"]) == 0
    contents = json.loads(capsys.readouterr().out)["contents"]
    assert contents["producer"] == f"torch {torch.__version__}"
    assert contents["operators"] == {"aten.linear.default": 1}
    assert contents["weights"] == {"float16": 30}


def test_program_of_another_torch_that_cannot_be_read_names_it(tmp_path: Path) -> None:
    written, path = tmp_path / "written.pt2", tmp_path / "m.pt2"
    torch.export.save(torch.export.export(nn.ReLU(), (torch.ones(2),)), written)
    with ZipFile(written) as old, ZipFile(path, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name.endswith("models/model.json"):
                text = text.replace(torch.__version__.encode(), b"2.6.0+cu124")
                text = text.replace(b"aten.relu.default", b"aten.relu.gone")
            new.writestr(name, text)
    with pytest.raises(ModelSourceError) as caught:
        read_ir(path)
    assert str(caught.value).startswith(
        f"'{path}' was written by torch 2.6.0+cu124, and torch {torch.__version__} cannot read it: "
    )
    assert caught.value.hint == (
        "export the model again with this torch, or pip install torch==2.6.0"
    )


def test_package_of_aotinductor_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    with ZipFile(path, "w") as archive:
        archive.writestr("m/archive_format", "pt2")
        archive.writestr("m/data/aotinductor/model/model.so", b"\0")
    with pytest.raises(ModelSourceError, match="package of AOTInductor, compiled for") as caught:
        read_ir(path)
    assert caught.value.hint == (
        "pass the program that it was compiled from: torch.export.save(program, 'm.pt2')"
    )


def test_package_of_torch_package_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with ZipFile(path, "w") as archive:
        archive.writestr("m/.data/extern_modules", "torch")
    with pytest.raises(ModelSourceError, match=r"a torch\.package archive, which is not loaded"):
        read_ir(path)
