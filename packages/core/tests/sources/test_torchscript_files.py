"""TorchScript files as people have them: any suffix, frozen, with methods other than forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ModelError, ModelSourceError

if TYPE_CHECKING:
    from pathlib import Path

jit: Any = torch.jit
X = torch.linspace(-1, 2, 8).view(2, 4)

# torch's own warnings: their category depends on the version
pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore:`torch.jit"),
]


class Methods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)

    @jit.export
    def encode(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        encoded: torch.Tensor = self.drop(self.layer(x)) * scale
        return encoded


class WithForward(Methods):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        decoded: torch.Tensor = self.drop(self.layer(x))
        return decoded


def deploy(model: object, folder: Path, args: object = X) -> eb.Deployment:
    return eb.deploy(model, args, backend="loopback", work_dir=folder / "out")


@pytest.mark.parametrize("name", ["m.pt", "m.jit", "m.ts", "m.torchscript", "m.pth", "m.bin", "m"])
def test_torchscript_is_read_whatever_its_suffix(name: str, tmp_path: Path) -> None:
    jit.script(WithForward()).save(tmp_path / name)
    assert deploy(tmp_path / name, tmp_path).verdict == "verified"


@pytest.mark.parametrize("name", ["m.jit", "m.ts", "m.torchscript"])
def test_weights_with_a_suffix_of_torchscript_are_named(name: str, tmp_path: Path) -> None:
    torch.save(nn.Linear(4, 3).state_dict(), tmp_path / name)
    with pytest.raises(ModelSourceError, match="found pickled weights") as caught:
        deploy(tmp_path / name, tmp_path)
    assert caught.value.hint == (
        f"also pass the model of these weights: file.py:attr --weights {tmp_path / name}"
    )


def test_frozen_torchscript_is_deployed(tmp_path: Path) -> None:
    jit.freeze(jit.script(WithForward().eval())).save(tmp_path / "m.pt")
    assert deploy(tmp_path / "m.pt", tmp_path).verdict == "verified"


def test_torchscript_that_was_saved_in_training_mode_is_evaluated(tmp_path: Path) -> None:
    jit.script(WithForward().train()).save(tmp_path / "m.pt")
    assert deploy(tmp_path / "m.pt", tmp_path).verdict == "verified"


def test_method_is_a_model(tmp_path: Path) -> None:
    jit.script(Methods().train()).save(tmp_path / "m.pt")
    deployed = deploy(f"{tmp_path}/m.pt:encode", tmp_path)
    assert deployed.verdict == "verified"
    assert deployed.artifact.manifest.model == f"{tmp_path}/m.pt:encode"
    expected = jit.load(tmp_path / "m.pt").eval().encode(X)
    (output,) = eb.load(tmp_path / "out")({"x": X}).values()
    torch.testing.assert_close(output, expected)


def test_file_without_forward_names_its_methods(tmp_path: Path) -> None:
    jit.script(Methods()).save(tmp_path / "m.pt")
    with pytest.raises(ModelSourceError) as caught:
        deploy(tmp_path / "m.pt", tmp_path)
    assert str(caught.value) == f"'{tmp_path}/m.pt' has no method forward; its methods: encode"
    assert caught.value.hint == f"name one of them: {tmp_path}/m.pt:encode"


def test_unknown_method_is_refused(tmp_path: Path) -> None:
    jit.script(WithForward()).save(tmp_path / "m.pt")
    with pytest.raises(ModelSourceError, match="no method 'enc'; its methods: encode, forward"):
        deploy(f"{tmp_path}/m.pt:enc", tmp_path)


@pytest.mark.parametrize("make", [jit.script, lambda model: jit.trace(model.eval(), X)])
def test_error_of_torchscript_has_its_reason_and_its_line(make: Any, tmp_path: Path) -> None:
    make(WithForward()).save(tmp_path / "m.pt")
    with pytest.raises(ModelError) as caught:
        deploy(tmp_path / "m.pt", tmp_path, torch.ones(1, 3))
    line, _, place = str(caught.value).partition(" (sources/test_torchscript_files.py:")
    assert line == (
        "the model's forward raised RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x3 "
        "and 4x3)"
    )
    assert place


def test_one_required_input_needs_no_name(tmp_path: Path) -> None:
    jit.script(Methods()).save(tmp_path / "m.pt")
    args = {"": eb.TensorSpec("", "float32", (2, 4))}
    assert deploy(f"{tmp_path}/m.pt:encode", tmp_path, args).verdict == "verified"
