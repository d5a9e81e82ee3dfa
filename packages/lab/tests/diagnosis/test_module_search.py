"""The search for the first module that an engine computes wrongly: faults planted in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, strategies as st
from packages.lab.tests.diagnosis.planted_faults import (
    PlantedEngine,
    add_a_tenth,
    add_to_input,
    runs_alone,
    search_of,
    target_of,
)
from torch import nn

from enginebay.errors import UsageError
from enginebay_lab.diagnosis import module_search
from enginebay_lab.diagnosis.intermediate_outputs import ModuleOutput, ModuleOutputsModel
from enginebay_lab.diagnosis.module_search import ModuleSearch, group_by_size, max_error
from enginebay_lab.diagnosis.pieces import SideBySide

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Nested modules: the numbers are branches, None is a layer.
TREES = st.recursive(st.none(), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8)


def build_tree(tree: Any) -> nn.Module:
    """Return the layer or the branches of a tree."""
    if tree is None:
        return nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    return nn.Sequential(*map(build_tree, tree))


def chain(count: int) -> nn.Sequential:
    """Return linear layers, none of which hides what another adds."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(3, 3) for _ in range(count))).eval()


class Twice(nn.Module):
    """Calls one module twice, the second time on another value."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.inner(x).cos())


@given(TREES, st.data())
def test_a_fault_is_found_wherever_it_is_planted(tree: Any, data: st.DataObject) -> None:
    model = nn.Sequential(build_tree(tree), nn.Tanh()).eval()
    paths = [path for path, _ in model.named_modules() if path]
    path = data.draw(st.sampled_from(paths))
    engine = PlantedEngine({model.get_submodule(path): add_a_tenth})
    culprit = search_of(engine, model, torch.randn(2, 3)).find_culprit()
    # A container whose last module is wrong, and a container that is wrong, are one to PyTorch: the
    # hook of either changes the same tensor, and the inner call ends first.
    assert culprit.piece.path == path
    assert culprit.alone is not None
    assert culprit.alone.max_abs_error == pytest.approx(0.1, abs=1e-6)
    assert max_error(culprit.accumulated) == pytest.approx(0.1, abs=1e-6)


@given(TREES, st.data())
def test_a_fault_before_the_modules_inside_is_found(tree: Any, data: st.DataObject) -> None:
    model = nn.Sequential(nn.Linear(3, 3), build_tree(tree)).eval()
    paths = [path for path, module in model.named_modules() if path.count(".")]
    module = model.get_submodule(path := data.draw(st.sampled_from(paths)))
    engine = PlantedEngine(before={module: add_to_input})
    assert search_of(engine, model, torch.randn(2, 3)).find_culprit().piece.path == path


@given(st.integers(0, 19), st.integers(0, 19))
def test_the_first_of_two_faults_is_found(one: int, other: int) -> None:
    model = chain(20)
    engine = PlantedEngine({model[one]: add_a_tenth, model[other]: add_a_tenth})
    culprit = search_of(engine, model, torch.randn(1, 3)).find_culprit()
    assert culprit.piece.path == str(min(one, other))


def test_a_fault_is_told_from_its_effects() -> None:
    model = chain(4)
    search = search_of(PlantedEngine({model[1]: add_a_tenth}), model, torch.ones(1, 3))
    search.find_culprit()
    found = [(place.title, place.wrong, place.wrong_alone) for place in search.places]
    assert found == [
        ("0", False, None),  # right, so it is not run alone
        ("1", True, True),
        ("2", True, False),
        ("3", True, False),
        ("(the model)", True, None),
    ]


def test_the_second_call_of_a_module_is_measured_alone_on_its_own_inputs() -> None:
    class Steep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.exp()

    def wrong_above_two(_: nn.Module, args: tuple[torch.Tensor], result: torch.Tensor) -> Any:
        return result + (args[0] > 2)

    model = nn.Sequential(Steep(), nn.Identity())
    model = nn.Sequential(model, model).eval()  # exp(exp(1)): the second call is on 2.7
    engine = PlantedEngine({model[0][0]: wrong_above_two})
    search = search_of(engine, model, torch.ones(1))
    culprit = search.find_culprit()
    assert (culprit.piece.path, culprit.piece.number) == ("0.0", 1)
    titles = {place.title: place for place in search.places}
    assert not titles["0.0"].wrong
    assert titles["0.0 (call 2)"].wrong_alone


def test_the_call_that_was_right_is_not_the_suspect_of_a_module_that_cannot_run_alone() -> None:
    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) * 2

    def wrong_above_two(_: nn.Module, args: tuple[torch.Tensor], result: torch.Tensor) -> Any:
        return result + (args[0] >= 2)

    around = Around()
    model = nn.Sequential(around, around).eval()  # on 1, then on 2
    engine = PlantedEngine(
        {around.inner: wrong_above_two},
        refuses=lambda module, names: isinstance(module, SideBySide),  # nothing alone
    )
    culprit = search_of(engine, model, torch.ones(1)).find_culprit()
    assert (culprit.piece.path, culprit.piece.number) == ("0.inner", 1)
    assert culprit.accumulated is not None
    assert culprit.accumulated.max_abs_error == 1

    def refuses(module: nn.Module, names: Sequence[str]) -> bool:
        return runs_alone(module, "0")

    # Of the module around it, the second call is wrong, so the first is none that may be the cause.
    engine = PlantedEngine(before={around: lambda _, args: (args[0] + (args[0] >= 2),)})
    engine.refuses = refuses
    culprit = search_of(engine, model, torch.ones(1)).find_culprit()
    assert (culprit.piece.path, culprit.piece.number) == ("0", 1)
    assert culprit.accumulated is not None
    assert not culprit.accumulated.passed


def test_a_call_that_raised_and_was_repeated_is_one_of_the_calls() -> None:
    class Picky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dim() == 3:
                raise ValueError("two dimensions only")
            return x.sin()

    class Patient(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.picky, self.head = Picky(), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                y = self.picky(x[None])
            except ValueError:
                y = self.picky(x)
            return self.head(y)

    model = Patient().eval()
    search = search_of(PlantedEngine({model.picky: add_a_tenth}), model, torch.ones(2, 3))
    assert search.find_culprit().piece.path == "picky"
    assert next(place.title for place in search.places) == "picky (call 2)"


def test_a_module_that_calls_itself_is_found_with_the_call_that_is_wrong() -> None:
    class Countdown(nn.Module):
        def forward(self, x: torch.Tensor, left: int = 2) -> torch.Tensor:
            return x.sin() if not left else self(x + 1, left - 1)

    def wrong_at_the_end(_: nn.Module, args: tuple[Any, ...], result: torch.Tensor) -> Any:
        return result + 0.1 if args[1:] == (0,) else result

    model = nn.Sequential(Countdown()).eval()
    engine = PlantedEngine({model[0]: wrong_at_the_end})
    culprit = search_of(engine, model, torch.ones(3)).find_culprit()
    assert (culprit.piece.path, culprit.piece.number) == ("0", 2)
    assert culprit.alone is not None
    assert not culprit.alone.passed


def test_right_modules_leave_the_model_itself() -> None:
    class Between(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    model = Between().eval()
    # What 'b' receives is wrong only within the model: it is the model's code between them.

    class Slipping(PlantedEngine):
        def __call__(self, module: nn.Module, tensors: Any, names: Any) -> Any:
            within = isinstance(module, ModuleOutputsModel)
            self.before = {model.b: add_to_input} if within else {}
            return super().__call__(module, tensors, names)

    culprit = search_of(Slipping(), model, torch.ones(1, 3)).find_culprit()
    assert (culprit.piece.path, culprit.piece.module, culprit.alone) == ("", model, None)
    assert culprit.piece.leaves == (0,)


@pytest.mark.parametrize("number", range(6))
def test_a_fault_that_shows_only_if_nodes_are_fused_is_found_by_binary_search(number: int) -> None:
    model = chain(6)
    engine = PlantedEngine({model[number]: add_a_tenth}, fused=True)
    search = search_of(engine, model, torch.ones(1, 3))
    culprit = search.find_culprit()
    first = next(place for place in search.places if place.wrong)
    assert first.module == str(number)
    # The engine of all outputs at once, then one for each step of the search, then those alone.
    assert len([names for names in engine.built if names == ["output_0"]]) <= 4
    # Alone it is right, so only the model as a whole is to blame.
    assert (culprit.piece.path, max_error(culprit.accumulated)) == ("", pytest.approx(0.1))


def test_an_engine_without_a_wrong_output_leaves_the_model_itself() -> None:
    culprit = search_of(PlantedEngine(), chain(3), torch.ones(1, 3)).find_culprit()
    assert (culprit.piece.path, culprit.alone) == ("", None)
    assert culprit.accumulated is not None
    assert culprit.accumulated.passed


def test_a_search_without_any_output_to_compare_ends_at_the_model_itself() -> None:
    target = target_of(chain(2), torch.ones(1, 3))._replace(shapes={})
    search = ModuleSearch(target, PlantedEngine(), lambda text: None)
    culprit = search.find_culprit()
    assert (culprit.piece.path, culprit.accumulated, culprit.alone) == ("", None, None)
    assert search.places == ()


def test_outputs_that_cannot_be_returned_together_are_halved() -> None:
    model = chain(7)
    engine = PlantedEngine(
        {model[2]: add_a_tenth},
        refuses=lambda module, names: isinstance(module, ModuleOutputsModel) and len(names) > 2,
    )
    assert search_of(engine, model, torch.ones(1, 3)).find_culprit().piece.path == "2"
    scanned = [len(names) for names in engine.built if names[0].startswith("output")]
    assert scanned == [8, 4, 2, 2, 4, 2, 2]


def test_an_output_that_no_engine_returns_is_skipped() -> None:
    model = chain(4)

    def refuses(module: nn.Module, names: Sequence[str]) -> bool:
        return isinstance(module, ModuleOutputsModel) and any(
            output.module == "1" for output in module.outputs
        )

    engine = PlantedEngine({model[2]: add_a_tenth}, refuses=refuses)
    search = search_of(engine, model, torch.ones(1, 3))
    assert search.find_culprit().piece.path == "2"
    assert [place.title for place in search.places] == ["0", "2", "3", "(the model)"]


def test_an_engine_that_builds_nothing_ends_the_search_at_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module_search, "_MAX_BUILD_FAILURES", 3)
    engine = PlantedEngine(refuses=lambda module, names: True)
    culprit = search_of(engine, chain(40), torch.ones(1, 3)).find_culprit()
    assert (culprit.piece.path, culprit.accumulated, culprit.alone) == ("", None, None)
    # Three failures are halved; then each of the outputs left, and each step, fails once.
    assert len(engine.built) <= 1 + 2 * 3 + 7


def test_a_crash_with_one_output_is_the_result_of_this_output() -> None:
    model = chain(4)

    def crashes(module: nn.Module, names: Sequence[str]) -> bool:
        if isinstance(module, SideBySide):
            return runs_alone(module, "2")
        assert isinstance(module, ModuleOutputsModel)
        return any(output.module in ("2", "3", "") for output in module.outputs)

    search = search_of(PlantedEngine(crashes=crashes), model, torch.ones(1, 3))
    culprit = search.find_culprit()
    assert culprit.piece.path == "2"
    assert culprit.alone is not None
    assert (culprit.alone.reason, culprit.alone.max_abs_error) == ("ended with SIGSEGV", None)
    places = {place.title: place for place in search.places}
    assert (places["2"].wrong, places["2"].accumulated) == (True, None)
    assert (places["3"].wrong, places["3"].wrong_alone) == (True, False)


def test_a_mistake_of_the_caller_ends_the_search() -> None:
    def refuses(module: nn.Module, names: Sequence[str]) -> bool:
        raise UsageError("no such rewriter")

    with pytest.raises(UsageError, match=r"^no such rewriter$"):
        search_of(PlantedEngine(refuses=refuses), chain(2), torch.ones(1, 3)).find_culprit()


def test_modules_that_cannot_be_built_together_are_built_one_by_one() -> None:
    model = chain(4)

    def refuses(module: nn.Module, names: Sequence[str]) -> bool:
        return isinstance(module, SideBySide) and len(module.calls) > 1

    engine = PlantedEngine({model[0]: add_a_tenth}, refuses=refuses)
    search = search_of(engine, model, torch.ones(1, 3))
    assert search.find_culprit().piece.path == "0"
    alone = [place.wrong_alone for place in search.places]
    assert alone == [True, False, False, False, None]


def test_the_first_wrong_module_is_blamed_if_it_cannot_run_alone() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())).eval()
    engine = PlantedEngine(
        {model[1][0]: add_a_tenth}, refuses=lambda module, names: runs_alone(module, "1.0")
    )
    culprit = search_of(engine, model, torch.ones(1, 3)).find_culprit()
    assert (culprit.piece.path, culprit.alone) == ("1.0", None)
    assert max_error(culprit.accumulated) == pytest.approx(0.1, abs=1e-6)


def test_only_some_wrong_modules_are_run_alone_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_search, "_ALONE_MODULES", 2)

    class Deep(PlantedEngine):
        """Wrong from the first module on within the model; alone only the sixth is wrong."""

        def __call__(self, module: nn.Module, tensors: Any, names: Any) -> Any:
            whole = isinstance(module, ModuleOutputsModel)
            self.faults = {model[0 if whole else 5]: add_a_tenth}
            return super().__call__(module, tensors, names)

    model = chain(9)
    search = search_of(engine := Deep(), model, torch.ones(1, 3))
    assert search.find_culprit().piece.path == "5"
    rounds = [names for names in engine.built if names[0].startswith("piece")]
    assert [len(names) for names in rounds] == [2, 2, 2]
    model = chain(9)
    model[5], model[6] = model[6], model[5]
    monkeypatch.setattr(module_search, "_MAX_ROUNDS", 2)
    search = search_of(Deep(), model, torch.ones(1, 3))
    assert search.find_culprit().piece.path == ""  # nobody looked as far as the sixth


def test_steps_are_told_by_their_modules() -> None:
    model, told = chain(2), []
    engine = PlantedEngine({model[0]: add_a_tenth})
    ModuleSearch(target_of(model, torch.ones(1, 3)), engine, told.append).find_culprit()
    assert told == ["0 … the model", "alone: 0, 1"]


def test_results_that_are_nested_are_compared_leaf_by_leaf() -> None:
    class Nested(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"a": (x, x * 2), "n": x.argmax(-1), "b": [x.sin()]}

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.nested = Nested()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = self.nested(x)
            return found["a"][1] + found["b"][0]

    def wrong_last(_: nn.Module, __: object, result: dict[str, Any]) -> dict[str, Any]:
        return {**result, "b": [result["b"][0] + 3]}

    model = Reads().eval()
    target = target_of(model, torch.ones(2, 3))
    assert target.compared_leaves(("nested", 0)) == (0, 1, 3)  # not the integers
    assert target.as_piece(("", 0)).leaves == (0,)
    search = ModuleSearch(target, PlantedEngine({model.nested: wrong_last}), lambda text: None)
    culprit = search.find_culprit()
    assert (culprit.piece.path, culprit.piece.leaves) == ("nested", (0, 1, 3))
    assert max_error(culprit.alone) == 3


def test_a_module_that_is_random_is_no_obstacle() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.noise, self.head = nn.Tanh(), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x) + 0 * self.noise(x)  # it does not show in the result

    class Doubts(PlantedEngine):
        """Has no outputs if one of them is that of the random module."""

        def __call__(self, module: nn.Module, tensors: Any, names: Any) -> Any:
            found = super().__call__(module, tensors, names)
            taps = module.outputs if isinstance(module, ModuleOutputsModel) else ()
            if any(output.module == "noise" for output in taps):
                return found._replace(outputs={}, doubt="a second run differs")
            return found

    model = Noisy().eval()
    search = search_of(Doubts({model.head: add_a_tenth}), model, torch.ones(1, 3))
    assert search.find_culprit().piece.path == "head"
    assert "noise" not in [place.module for place in search.places]


def test_an_output_of_nan_is_wrong_and_has_no_figure() -> None:
    model = chain(3)
    engine = PlantedEngine({model[1]: lambda _, __, result: result * float("nan")})
    search = search_of(engine, model, torch.ones(1, 3))
    culprit = search.find_culprit()
    assert culprit.piece.path == "1"
    assert [place.wrong for place in search.places] == [False, True, True, True]


@given(st.dictionaries(st.integers(), st.integers(0, 2**27)), st.integers(1, 5))
def test_groups_keep_the_order_and_the_limits(sizes: dict[int, int], count: int) -> None:
    groups = list(group_by_size(sizes, count))
    assert [item for group in groups for item in group] == list(sizes)
    for group in groups:
        assert 1 <= len(group) <= count
        assert len(group) == 1 or sum(sizes[item] for item in group) <= 2**28


def test_an_item_above_the_limit_has_a_group_of_its_own() -> None:
    sizes = {"a": 1, "b": 2**40, "c": 1, "d": 2**28 - 1, "e": 1}
    assert list(group_by_size(sizes, 9)) == [["a"], ["b"], ["c", "d"], ["e"]]
    assert list(group_by_size({}, 9)) == []


def test_the_output_of_a_call_has_a_key() -> None:
    assert ModuleOutput("body.l", 2, 1).key == ("body.l", 2)
