"""A wrapper that returns the outputs of a model's modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from packages.lab.tests.diagnosis.planted_faults import target_of
from torch import nn

from enginebay_lab.diagnosis.intermediate_outputs import (
    ModuleOutput,
    ModuleOutputsModel,
    find_tensors,
    hooked_modules,
    record_shapes,
    watch_outputs,
)

#: Layers that keep the shape of their input; two of them work in place.
LAYERS = {
    "linear": lambda: nn.Linear(3, 3),
    "relu": lambda: nn.ReLU(inplace=True),
    "norm": lambda: nn.BatchNorm1d(3),
    "drop": lambda: nn.Dropout(0.5, inplace=True),
    "tanh": nn.Tanh,
    "nested": lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True)),
}


def outputs_of(model: nn.Module, *args: Any) -> list[ModuleOutput]:
    return list(target_of(model, *args).shapes)


def tap(model: nn.Module, outputs: list[ModuleOutput], *args: Any) -> tuple[torch.Tensor, ...]:
    """Return some outputs of a model's modules."""
    target = target_of(model, *args)
    with torch.no_grad():
        return ModuleOutputsModel(model, target.call, outputs)(*target.tensors)


@given(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=6), st.data())
def test_taps_return_what_each_module_returned_and_change_nothing(
    names: list[str], data: st.DataObject
) -> None:
    model = nn.Sequential(*(LAYERS[name]() for name in names)).eval()
    x = torch.randn(2, 3)
    before = x.clone()
    with torch.no_grad():
        expected = model(x.clone())
        partial = x.clone()
        known = {}
        for number, layer in enumerate(model):
            partial = layer(partial.clone())
            known[str(number)] = partial.clone()
    outputs = outputs_of(model, x)
    chosen = data.draw(st.permutations(outputs))[: data.draw(st.integers(1, len(outputs)))]
    found = dict(zip(chosen, tap(model, chosen, x), strict=True))
    for output, value in found.items():
        if output.module in known:
            torch.testing.assert_close(value, known[output.module], rtol=0, atol=0)
        if output.module == "":
            torch.testing.assert_close(value, expected, rtol=0, atol=0)
    torch.testing.assert_close(x, before, rtol=0, atol=0)
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_an_output_that_later_code_overwrites_is_returned_as_it_was() -> None:
    class Overwrites(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.inner(x * 2)
            y += 100
            return y

    taps = tap(Overwrites(), [ModuleOutput("inner", 0, 0), ModuleOutput("", 0, 0)], torch.ones(2))
    assert [value.tolist() for value in taps] == [[2, 2], [102, 102]]


def test_the_wrapper_leaves_the_modes_of_modules_alone() -> None:
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3)).train()
    model[1].eval()
    target = target_of(model, torch.ones(2, 3))
    wrapper = ModuleOutputsModel(model, target.call, list(target.shapes))
    assert [wrapper.training, model.training, model[0].training, model[1].training] == [
        *(False, True, True, False)
    ]


def test_shapes_are_those_of_evaluation_and_the_mode_is_put_back() -> None:
    class Aux(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return (x, x.sum()) if self.training else x

    model = nn.Sequential(Aux()).train()
    shapes = target_of(model, torch.ones(2, 3)).shapes
    assert shapes == {ModuleOutput("0", 0, 0): (2, 3), ModuleOutput("", 0, 0): (2, 3)}
    assert model.training


class Mixed(nn.Module):
    """Returns floats, integers, and an empty tensor."""

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"f": x, "i": x.argmax(-1), "e": x[:0], "n": None, "deep": [(x.half(),)]}


def test_outputs_are_numbered_by_their_tensors() -> None:
    model = nn.Sequential(Mixed())
    found = {(output.module, output.leaf): shape for output, shape in record(model).items()}
    assert found == {("0", 0): (2, 3), ("0", 3): (2, 3), ("", 0): (2, 3), ("", 3): (2, 3)}
    assert [t.dtype for t in find_tensors(Mixed()(torch.ones(2, 3)))] == [
        *(torch.float32, torch.int64, torch.float32, torch.float16)
    ]
    assert find_tensors(None) == []


def record(model: nn.Module) -> dict[ModuleOutput, tuple[int, ...]]:
    target = target_of(model, torch.ones(2, 3))
    return record_shapes(model, target.call, target.tensors)


def test_integers_are_compared_if_the_model_itself_returns_nothing_else() -> None:
    class Best(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.argmax(-1)

    floats_inside = nn.Sequential(nn.Linear(3, 3), Best())
    assert [output.module for output in record(floats_inside)] == ["0", ""]
    only_integers = nn.Sequential(Best(), nn.Identity())
    assert [output.module for output in record(only_integers)] == ["0", "1", ""]


def test_calls_are_numbered_in_the_order_in_which_they_begin() -> None:
    class Deep(nn.Module):
        def forward(self, x: torch.Tensor, left: int = 2) -> torch.Tensor:
            return self(x + 1, left - 1) if left else x

    seen: list[tuple[int, float]] = []
    with watch_outputs(model := Deep(), lambda output, t: seen.append((output.call, t.item()))):
        model(torch.tensor(0.0))
        model(torch.tensor(5.0), 0)
    assert seen == [(2, 2.0), (1, 2.0), (0, 2.0), (3, 5.0)]


def test_a_call_that_raised_leaves_the_numbers_of_the_others() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() < 0:
                raise ValueError("negative")
            return x

    seen: list[int] = []
    with watch_outputs(model := Fails(), lambda output, _: seen.append(output.call)):
        model(torch.ones(1))
        with pytest.raises(ValueError, match="negative"):
            model(-torch.ones(1))
        model(torch.ones(1))
    assert seen == [0, 2]
    model(torch.ones(1))  # outside the block nobody watches
    assert seen == [0, 2]


def test_hooks_are_removed_if_the_model_raises() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("always")

    model = nn.Sequential(nn.Identity(), Fails())
    with pytest.raises(ValueError, match="always"), watch_outputs(model, lambda *_: None):
        model(torch.ones(1))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_of_torchscript_run_no_hooks() -> None:
    script = torch.jit.trace(nn.Sequential(nn.Linear(3, 3)).eval(), torch.ones(1, 3))
    model = nn.Sequential(nn.Tanh(), script)
    assert [path for path, _ in hooked_modules(model)] == ["", "0"]
    assert [output.module for output in outputs_of(model, torch.ones(1, 3))] == ["0", ""]


def test_a_shared_module_has_its_first_path() -> None:
    shared = nn.Linear(3, 3)
    outputs = outputs_of(nn.Sequential(shared, nn.Sequential(shared)), torch.ones(1, 3))
    assert [(output.module, output.call) for output in outputs] == [
        *(("0", 0), ("0", 1), ("1", 0), ("", 0))
    ]
