"""Models cut into pieces, which compute together what the model computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, strategies as st
from packages.lab.tests.diagnosis.planted_faults import target_of
from packages.lab.tests.diagnosis.test_module_search import TREES, build_tree
from torch import nn

from enginebay_lab.diagnosis.model_cutter import CutPiece, ModelCutter
from enginebay_lab.diagnosis.pieces import SideBySide

if TYPE_CHECKING:
    from collections.abc import Collection


def cutter_of(model: nn.Module, *args: Any, uncut: Collection[str] = ()) -> ModelCutter:
    return ModelCutter(target_of(model, *args).as_piece(("", 0)), uncut)


def cut_all(model: nn.Module, *args: Any, uncut: Collection[str] = ()) -> dict[str, CutPiece]:
    """Return every piece of a model by its path, with the call if it is not the first one."""
    cutter = cutter_of(model, *args, uncut=uncut)
    pieces = cutter.cut_pieces(list(cutter.sizes))
    return {
        f"{cut.piece.path}#{cut.piece.number}" if cut.piece.number else cut.piece.path: cut
        for cut in pieces
    }


@given(TREES, st.integers(0, 9))
def test_each_piece_computes_what_its_call_computed(tree: Any, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(build_tree(tree), nn.Linear(3, 2)).eval()
    x = torch.randn(2, 3)
    with torch.no_grad():
        expected = model(x)
    cuts = cut_all(model, x)
    layers = [path for path, m in model.named_modules() if not isinstance(m, nn.Sequential)]
    # A container only passes tensors on: it computes nothing itself, so it is no piece.
    assert list(cuts) == layers
    last = cuts["1"].piece
    with torch.no_grad():
        torch.testing.assert_close(last.run(last.tensors)[0].value, expected, rtol=0, atol=0)
        for cut in cuts.values():
            value = cut.piece.run(cut.piece.tensors)[0].value
            alone = model.get_submodule(cut.piece.path)(cut.piece.tensors[0])
            torch.testing.assert_close(value, alone, rtol=0, atol=0)


@given(TREES)
def test_random_inputs_have_the_shapes_and_ranges_of_the_real_ones(tree: Any) -> None:
    model = nn.Sequential(build_tree(tree)).eval()
    for cut in cut_all(model, torch.randn(4, 3)).values():
        assert len(cut.random_inputs) == len(cut.piece.tensors)
        for drawn, real in zip(cut.random_inputs, cut.piece.tensors, strict=True):
            assert (drawn.shape, drawn.dtype) == (real.shape, real.dtype)
            assert drawn.min() >= real.min()
            assert drawn.max() <= real.max()


class Residual(nn.Module):
    """Code of its own around two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.b(self.a(x).relu()) * 2


def test_the_code_around_modules_is_a_piece_without_them() -> None:
    cuts = cut_all(Residual().eval(), torch.randn(2, 3))
    assert list(cuts) == ["a", "b", ""]
    own = cuts[""].piece
    assert len(own.tensors) == 3  # the input, and the results of both layers
    # Compared are what it passes to 'b', and its result; 'a' gets the input itself.
    assert own.leaves == (1, 2)


def test_calls_are_cut_in_groups_as_all_at_once() -> None:
    model = nn.Sequential(Residual(), Residual()).eval()
    x = torch.randn(2, 3)
    cutter = cutter_of(model, x)
    keys = list(cutter.sizes)
    grouped = [cut.piece for key in keys for cut in cutter.cut_pieces([key])]
    whole = [cut.piece for cut in cut_all(model, x).values()]
    assert [(one.path, one.leaves) for one in grouped] == [(one.path, one.leaves) for one in whole]


def test_a_second_call_is_a_piece_of_its_own() -> None:
    shared = nn.Linear(3, 3)
    cuts = cut_all(nn.Sequential(shared, nn.Tanh(), shared).eval(), torch.randn(1, 3))
    assert list(cuts) == ["0", "1", "0#1"]
    assert cuts["0"].piece.module is cuts["0#1"].piece.module


def test_modules_inside_an_uncut_module_are_no_pieces() -> None:
    model = nn.Sequential(Residual(), nn.Tanh()).eval()
    assert list(cut_all(model, torch.randn(1, 3), uncut={"0"})) == ["0", "1"]
    assert list(cut_all(model, torch.randn(1, 3), uncut={""})) == [""]


class Counts(nn.Module):
    """Returns something else each time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


def test_a_module_with_a_memory_stays_in_the_piece_around_it() -> None:
    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.counts, self.head = Counts(), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.counts.calls = 5
            return self.head(self.counts(x)) + 1

    cuts = cut_all(Around().eval(), torch.randn(1, 3))
    assert list(cuts) == ["head", ""]
    assert len(cuts[""].piece.tensors) == 2  # the input, and the result of 'head' only


def test_a_model_with_a_memory_is_unrepeatable() -> None:
    cutter = cutter_of(nn.Sequential(Counts(), nn.Linear(3, 3)).eval(), torch.randn(1, 3))
    assert cutter.unrepeatable_model is None  # not known before it is cut
    pieces = cutter.cut_pieces(list(cutter.sizes))
    assert [cut.piece.path for cut in pieces] == ["1"]
    assert cutter.unrepeatable_model is not None
    assert cutter.unrepeatable_model.path == ""


def test_a_module_that_raises_alone_stays_in_the_piece_around_it() -> None:
    class Shy(nn.Module):
        allowed = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.allowed:
                raise KeyError("not alone")
            return x + 1

    class Host(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shy = Shy()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.shy.allowed = True
            try:
                return self.shy(x) * 2
            finally:
                self.shy.allowed = False

    cuts = cut_all(Host(), torch.ones(1))
    assert list(cuts) == [""]
    assert cuts[""].piece.inner.tensors == ()


def test_a_module_without_tensors_stays_in_the_piece_around_it() -> None:
    class Constant(nn.Module):
        def forward(self, size: int) -> torch.Tensor:
            return torch.ones(size)

    class Adds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.constant = Constant()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.constant(x.shape[-1])

    assert list(cut_all(Adds(), torch.ones(1, 3))) == [""]


def test_results_that_cannot_be_compared_are_left_out() -> None:
    class Returns(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x * 2
            return x, y, y, x[:0], torch.complex(x, x), x.argmax(-1)

    (cut,) = cut_all(Returns(), torch.ones(2, 3)).values()
    assert cut.piece.leaves == (1, 5)  # not the input, the repetition, empty or complex tensors


def test_a_module_that_only_returns_its_input_is_no_piece() -> None:
    assert list(cut_all(nn.Sequential(nn.Identity(), nn.Tanh()), torch.ones(1))) == ["1"]


def test_a_module_that_writes_into_its_input_says_so() -> None:
    class Doubles(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2)

    cuts = cut_all(nn.Sequential(nn.Linear(3, 3), Doubles(), nn.Tanh()).eval(), torch.ones(1, 3))
    assert {path: cut.piece.writes for path, cut in cuts.items()} == {
        "0": False,
        "1": True,
        "2": False,
    }
    assert cuts["1"].piece.leaves == (0,)  # an input, but not as it was


def test_a_module_that_rejects_random_values_keeps_its_own() -> None:
    class Checks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.equal(x, x.round()):
                raise ValueError("whole numbers only")
            return x * 2

    class Chooses(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x == 0] + 1  # as many as the values decide

    class Blows(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x == x.round(), x, torch.nan)

    for module in (Checks(), Chooses(), Blows()):
        (cut,) = cut_all(module, torch.tensor([1.0, 0, 2, 1, 0, 3])).values()
        assert cut.random_inputs[0] is cut.piece.tensors[0]
    (cut,) = cut_all(nn.Tanh(), torch.tensor([1.0, 0, 2])).values()
    assert cut.random_inputs[0] is not cut.piece.tensors[0]


def test_sizes_are_those_of_the_calls_that_may_be_cut() -> None:
    cutter = cutter_of(nn.Sequential(Residual(), nn.Tanh()).eval(), torch.ones(1, 3), uncut={"0"})
    assert cutter.sizes == {("0", 0): 24, ("1", 0): 24, ("", 0): 24}


def test_the_model_and_its_modes_stay_as_they_were() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(), Residual()).train()
    model[0].eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    cut_all(model, torch.randn(4, 3))
    assert [m.training for m in model] == [False, True, True]
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("count", [1, 4])
def test_all_pieces_run_in_one_model(count: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Residual() for _ in range(count))).eval()
    x = torch.randn(2, 3)
    pieces = [cut.piece for cut in cut_all(model, x).values()]
    together = SideBySide(pieces)
    with torch.no_grad():
        found = dict(zip(together.names, together(*together.tensors), strict=True))
        expected = model(x)
    assert len(pieces) == 3 * count
    torch.testing.assert_close(found[together.names[-1]], expected, rtol=0, atol=0)
