"""An edited ``.pt2`` is refused before torch evaluates or calls its contents."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from enginebay.errors import ModelSourceError
from enginebay.ir.program_check import check_size_expression
from enginebay.sources.sources import load_model

RUN = "__import__('os').system('touch {mark}')"
HINT = "export the model again: torch.export.save"


class Halves(nn.Module):
    """Its sizes need a product, a division and a maximum."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        half = x.shape[0] // 2
        most = torch.sym_max(x.shape[0], y.shape[0])
        return x[:half], y.new_zeros((y.shape[0] + 1) // 3), y.new_zeros(most)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "m.pt2"
    dims = {"x": {0: 2 * torch.export.Dim("b", min=2)}, "y": {0: torch.export.Dim("n", min=5)}}
    example = (torch.ones(6, 2), torch.ones(7))
    torch.export.save(torch.export.export(Halves(), example, dynamic_shapes=dims), path)
    return path


def edited(program: Path, path: Path, old: str, new: str) -> Path:
    """The program with one piece of its JSON replaced."""
    count = 0
    with zipfile.ZipFile(program) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            text = source.read(name)
            if name.endswith("models/model.json"):
                count = text.count(old.encode())
                text = text.replace(old.encode(), new.encode())
            target.writestr(name, text)
    assert count, "the program has no such text: mend this test"
    return path


def test_unedited_program_is_loaded(program: Path) -> None:
    with zipfile.ZipFile(program) as archive:
        text = archive.read("m/models/model.json").decode()
    assert "FloorDiv(" in text
    assert "Max(" in text
    outputs = load_model(program).module(torch.ones(8, 2), torch.ones(9))
    assert [len(each) for each in outputs] == [4, 3, 9]


def test_a_command_in_a_size_expression_does_not_run(program: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    command = json.dumps(RUN.format(mark=mark))[1:-1]
    path = edited(
        program, tmp_path / "m.pt2", '"expr_str": "', f'"expr_str": "{command}", "expr_str": "'
    )
    with pytest.raises(ModelSourceError) as caught:
        load_model(path)
    assert not mark.exists()
    assert str(caught.value).startswith(f"'{path}': the size expression \"__import__('os').sys")
    assert str(caught.value).endswith("contains more than arithmetic, so it is not evaluated")
    assert caught.value.hint == HINT


def test_program_in_an_older_format_is_checked(program: Path, tmp_path: Path) -> None:
    path, mark = tmp_path / "old.pt2", tmp_path / "ran"
    with zipfile.ZipFile(program) as source, zipfile.ZipFile(path, "w") as target:
        graph = json.loads(source.read("m/models/model.json"))
        graph["range"] = {"expr_str": RUN.format(mark=mark)}
        target.writestr("serialized_exported_program.json", json.dumps(graph))
        target.writestr("m/archive_format", "pt2")
    with pytest.raises(ModelSourceError, match="contains more than arithmetic"):
        load_model(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "function",
    ["torch.os.system", "torchx.os.system", "torch.ops.load_library", "_operator.methodcaller"],
)
def test_function_other_than_an_operator_is_refused(
    program: Path, tmp_path: Path, function: str
) -> None:
    path = edited(program, tmp_path / "m.pt2", "_operator.floordiv", function)
    with pytest.raises(ModelSourceError) as caught:
        load_model(path)
    assert str(caught.value) == f"'{path}' calls '{function}', which is not an operator of torch"
    assert caught.value.hint == HINT


@pytest.mark.parametrize(
    "text",
    [
        "2*s65",
        "s0 // 2 + 1",
        "Mul(Integer(2), Symbol('s65', positive=True, integer=True))",
        "FloorDiv(Add(Symbol('s0', integer=True), Integer(-1)), Integer(2))",
        "Max(1, Mod(s0, 4), PythonMod(s1, 3)) % 5",
        "Pow(Symbol('s0'), Integer(2)) + Pow(s1, Rational(1, 2)) + s2**-1",
        "And(Equality(s0, Integer(2)), s1 > 3, Not(Ne(s2, 1)))",
        "Mul(Float('0.5', precision=53), ToFloat(s0))",
        "TruncToInt(FloatTrueDiv(s0, 2)) + CeilToInt(s0 / 3) + PowByNatural(s0, 2)",
        "True",
    ],
)
def test_arithmetic_is_accepted(text: str) -> None:
    check_size_expression(text, Path("m.pt2"))


@pytest.mark.parametrize(
    "text",
    [
        "s0.func",
        "().__class__",
        "sympify('s0')",
        "S('s0')",
        "Symbol('s0)')",
        "Symbol(f'{s0}')",
        "Symbol('s0', cls=Function)",
        "Max('s0', 1)",
        "Integer('9')",
        "lambda: 1",
        "[s0 for s0 in s1]",
        "(s0 := 1)",
        "s0[0]",
        "Max(*s0)",
        "Max(1)(2)",
        "9**9**9**9",
        "9**999",
        "Pow(9, 999)",
        "Pow(Pow(9, 60), 60)",
        "9" * 30,
        "(" * 500 + ")" * 500,
        "s0 +",
        "1" + "+1" * 20_000,
        ["s0"],
        None,
    ],
)
def test_expression_beyond_arithmetic_is_refused(text: object) -> None:
    with pytest.raises(ModelSourceError, match="contains more than arithmetic"):
        check_size_expression(text, Path("m.pt2"))
