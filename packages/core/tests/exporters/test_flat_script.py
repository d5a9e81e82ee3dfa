"""TorchScript that takes or returns other values than tensors is exported as its tensors."""

# Without `from __future__ import annotations`: torch.jit.script reads those of a class as types.
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ExportError, InputError

jit: Any = torch.jit
X = torch.linspace(-1, 2, 8).view(2, 4)
ONE = torch.ones(3)

# torch's own warnings: their category depends on the version
pytestmark = [
    pytest.mark.usefixtures("loopback"),
    pytest.mark.filterwarnings("ignore:`torch.jit"),
]


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)


class NothingBeside(Scaled):
    def forward(
        self, x: torch.Tensor, y: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        out = self.layer(x)
        return (out if y is None else out + y), y


class NumbersBeside(Scaled):
    def forward(
        self, x: torch.Tensor
    ) -> tuple[int, dict[str, list[torch.Tensor]], str, tuple[float, torch.Tensor]]:
        out = self.layer(x)
        return x.size(0), {"a": [out, out + 1]}, "label", (2.5, x)


class Numbers(Scaled):
    def forward(
        self, x: torch.Tensor, times: int, minus: bool = False, bias: float | None = None
    ) -> torch.Tensor:
        out = self.layer(x) * times
        if bias is not None:
            out = out + bias
        return -out if minus else out


class Nested(Scaled):
    def forward(
        self, pair: tuple[torch.Tensor, torch.Tensor], more: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return self.layer(pair[0]) + more["z"], pair[1]


CASES: dict[str, tuple[type[nn.Module], tuple[Any, ...]]] = {
    "an optional output that is given": (NothingBeside, (X, ONE)),
    "an optional output that is None": (NothingBeside, (X,)),
    "numbers and texts among the outputs": (NumbersBeside, (X,)),
    "numbers as arguments": (Numbers, (X, 3, True, 0.5)),
    "a number that is left out": (Numbers, (X, 3)),
    "a tuple and a dict as arguments": (Nested, ((X, ONE), {"z": ONE})),
}


@pytest.mark.parametrize("case", CASES)
def test_other_values_than_tensors(case: str, tmp_path: Path) -> None:
    build, args = CASES[case]
    jit.script(build()).save(tmp_path / "m.pt")
    deployed = eb.deploy(tmp_path / "m.pt", args, backend="loopback", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"


@pytest.mark.parametrize("case", CASES)
def test_trace_takes_and_returns_only_tensors(case: str, tmp_path: Path) -> None:
    build, args = CASES[case]
    model = jit.script(build())
    ir = eb.export(model, args, path=tmp_path / "flat.pt")
    tensors = [each for each in torch.utils._pytree.tree_leaves(args) if torch.is_tensor(each)]
    found = jit.load(ir.path)(*tensors)
    expected = torch.utils._pytree.tree_leaves(model(*args))
    expected = [each for each in expected if torch.is_tensor(each)]
    torch.testing.assert_close([*found] if isinstance(found, tuple) else [found], expected)


def test_outputs_keep_their_order(tmp_path: Path) -> None:
    jit.script(NumbersBeside()).save(tmp_path / "m.pt")
    deployed = eb.deploy(tmp_path / "m.pt", X, backend="loopback", work_dir=tmp_path / "out")
    assert [spec.name for spec in deployed.artifact.manifest.outputs] == [
        "output_1.a.0",
        "output_1.a.1",
        "output_3.1",
    ]
    assert deployed.notes[:3] == (
        "output 'output_0' is of type int, not a tensor, and is left out",
        "output 'output_2' is of type str, not a tensor, and is left out",
        "output 'output_3.0' is of type float, not a tensor, and is left out",
    )


def test_array_of_one_is_a_number_of_torchscript(tmp_path: Path) -> None:
    jit.script(Numbers()).save(tmp_path / "m.pt")
    args = {"x": X, "times": eb.TensorSpec("times", "float32", (16,))}  # --input times=16
    eb.deploy(tmp_path / "m.pt", args, backend="loopback", work_dir=tmp_path / "out")
    (output,) = eb.load(tmp_path / "out")({"x": X}).values()
    torch.testing.assert_close(output, jit.load(tmp_path / "m.pt")(X, 16))


def test_missing_inputs_are_listed_with_a_line_to_type(tmp_path: Path) -> None:
    jit.script(Numbers()).save(tmp_path / "m.pt")
    with pytest.raises(InputError) as caught:
        eb.deploy(tmp_path / "m.pt", backend="loopback", work_dir=tmp_path / "out")
    assert str(caught.value) == (
        f"'{tmp_path}/m.pt' has no example inputs; it takes (x: Tensor, times: int, minus: bool = "
        "False, bias: Optional[float] = None)"
    )
    assert caught.value.hint == (
        "pass them with your own sizes: --input x=1x3x224x224 --input times=1"
    )


@pytest.mark.filterwarnings("ignore")  # torch.ao is deprecated since torch 2.10
def test_torchs_operators_in_8_bits_are_named(tmp_path: Path) -> None:
    linear = nn.Sequential(nn.Linear(4, 3)).eval()
    jit.script(torch.ao.quantization.quantize_dynamic(linear)).save(tmp_path / "m.pt")
    with pytest.raises(ExportError, match="quantized::linear_dynamic") as caught:
        eb.deploy(tmp_path / "m.pt", X, backend="loopback", work_dir=tmp_path / "out")
    assert caught.value.hint == (
        "torch's operators in 8 bits are its own: pass the float model, and --precision int8 "
        "quantises it for the engine"
    )
