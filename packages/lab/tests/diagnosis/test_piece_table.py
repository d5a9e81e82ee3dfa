"""The rows of pieces: how they are ordered, and what becomes of pieces that fail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from packages.lab.tests.diagnosis.planted_faults import PlantedEngine, add_a_tenth, target_of
from torch import nn

from enginebay.errors import ConversionError
from enginebay_lab.diagnosis import piece_table
from enginebay_lab.diagnosis.module_search import EngineComparison
from enginebay_lab.diagnosis.piece_table import PieceTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from enginebay_lab.diagnosis.piece_rows import PieceRow
    from enginebay_lab.diagnosis.pieces import SideBySide


class Engines:
    """Engines that are PyTorch itself, with faults in some modules.

    Args:
        faults: Modules with faults.
        refuses: Returns True for the modules of pieces that no engine is built of together.
        crashes: Returns True for the modules of pieces at which the engine crashes.
        doubt: Why no comparison proves anything.
    """

    def __init__(
        self,
        faults: dict[nn.Module, Any] | None = None,
        *,
        refuses: Callable[[list[nn.Module]], bool] = lambda modules: False,
        crashes: Callable[[list[nn.Module]], bool] = lambda modules: False,
        doubt: str = "",
    ) -> None:
        self.engine = PlantedEngine(faults)
        self.refuses, self.crashes, self.doubt = refuses, crashes, doubt
        self.built: list[list[str]] = []

    def find_replaced(self, model: nn.Module) -> set[str]:
        return set()

    def compare_module(
        self,
        together: SideBySide,
        tensors: Sequence[Tensor],
        names: Sequence[str],
        items: Sequence[Sequence[Tensor]],
    ) -> EngineComparison:
        self.built.append([piece.path for piece in together.calls])
        modules = [piece.module for piece in together.calls]
        if self.refuses(modules):
            raise ConversionError("not these\nsecond line")
        if self.crashes(modules):
            return EngineComparison({}, "ended with SIGSEGV", (), Path())
        if self.doubt:
            return EngineComparison({}, "", (), Path(), self.doubt)
        return self.engine(together, tensors, names)


@pytest.fixture(autouse=True)
def _without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No graph: these engines are not built from one."""
    monkeypatch.setattr(piece_table, "read_exported_graph", lambda folder, scope: [])


def layers(count: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(3, 3) for _ in range(count))).eval()


def rows_of(
    model: nn.Module, engines: Engines, steps: list[str] | None = None
) -> tuple[PieceRow, ...]:
    root = target_of(model, torch.randn(2, 3)).as_piece(("", 0))
    table = PieceTable(root, engines)  # type: ignore[arg-type]  # what it calls of PieceEngines
    return table.build_rows([].append if steps is None else steps.append)


def verdicts(rows: Sequence[PieceRow]) -> list[tuple[str, str]]:
    return [(row.module, row.verdict) for row in rows]


@pytest.mark.parametrize("number", range(5))
def test_the_wrong_piece_comes_first(number: int) -> None:
    model = layers()
    rows = rows_of(model, Engines({model[number]: add_a_tenth}))
    assert verdicts(rows)[0] == (str(number), "mismatched")
    assert {row.verdict for row in rows[1:]} == {"verified"}
    assert len(rows) == 5
    assert rows[0].max_abs_error == pytest.approx(0.1, abs=1e-5)
    assert (rows[0].type, rows[0].sample, rows[0].is_redrawn) == ("Linear", "reference", True)


def test_the_larger_error_comes_first() -> None:
    model = layers()
    faults = {model[1]: lambda _, __, y: y + 1, model[3]: lambda _, __, y: y + 10}
    assert [row.module for row in rows_of(model, Engines(faults))][:2] == ["3", "1"]


def test_a_crash_costs_only_its_own_piece() -> None:
    model = layers()
    engines = Engines({model[0]: add_a_tenth}, crashes=lambda modules: model[3] in modules)
    rows = rows_of(model, engines)
    assert verdicts(rows)[:2] == [("3", "crashed"), ("0", "mismatched")]
    assert (rows[0].reason, rows[0].max_abs_error, rows[0].sample) == (
        "ended with SIGSEGV",
        None,
        "",
    )
    assert {row.verdict for row in rows[2:]} == {"verified"}
    assert engines.built[0] == ["0", "1", "2", "3", "4"]
    assert engines.built[-2:] == [["3"], ["4"]]


def test_a_piece_that_is_refused_comes_between_the_wrong_and_the_right() -> None:
    model = layers()
    engines = Engines({model[0]: add_a_tenth}, refuses=lambda modules: model[4] in modules)
    rows = rows_of(model, engines)
    assert verdicts(rows)[:2] == [("0", "mismatched"), ("4", "failed")]
    assert sorted(verdicts(rows)[2:]) == [(number, "verified") for number in "123"]
    assert rows[1].reason == "not these"  # the first line


def test_pieces_that_differ_in_each_run_are_not_compared() -> None:
    rows = rows_of(layers(2), Engines(doubt="a second run differs"))
    assert verdicts(rows) == [("0", "failed"), ("1", "failed")]
    assert {row.reason for row in rows} == {"a second run differs"}


def test_after_many_failures_pieces_are_reported_without_another_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(piece_table, "_MAX_BUILD_FAILURES", 2)
    engines = Engines(refuses=lambda modules: True)
    rows = rows_of(layers(8), engines)
    assert len(rows) == 8
    assert {row.verdict for row in rows} == {"failed"}
    assert len(engines.built) == 5  # all, both halves of it, and both halves of one of them


def test_large_models_have_several_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_table, "_PIECES_PER_ENGINE", 2)
    model, steps = layers(), []
    engines = Engines({model[4]: add_a_tenth})
    rows = rows_of(model, engines, steps)
    assert engines.built == [["0", "1"], ["2", "3"], ["4"]]
    assert steps == ["0 … 1", "2 … 3", "4 … the model"]
    assert verdicts(rows)[0] == ("4", "mismatched")


def test_a_piece_without_random_inputs_says_so() -> None:
    class Whole(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.equal(x, x.round()):
                raise ValueError("whole numbers only")
            return x * 2

    class Rounds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = Whole()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.whole(x.round())

    rows = {row.module: row for row in rows_of(Rounds(), Engines())}
    assert (rows["whole"].is_redrawn, rows[""].is_redrawn) == (False, True)


def test_an_output_of_another_shape_is_not_compared() -> None:
    model = layers(2)
    rows = rows_of(model, Engines({model[0]: lambda _, __, y: y[:1]}))
    found = {row.module: row for row in rows}
    assert found["0"].verdict == "failed"
    assert found["0"].reason.startswith("its shape differs: expected (2, 3), found (1, 3)")
    assert found["1"].verdict == "verified"


def test_an_output_of_nan_is_wrong() -> None:
    model = layers(2)
    rows = rows_of(model, Engines({model[0]: lambda _, __, y: y * float("nan")}))
    assert rows[0].module == "0"
    assert rows[0].verdict != "verified"
