"""The calls of a model's modules in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from packages.lab.tests.diagnosis.planted_faults import target_of
from torch import nn

from enginebay_lab.diagnosis.intermediate_outputs import ModuleOutput
from enginebay_lab.diagnosis.module_calls import Key, ModuleCall, record_calls


def record(model: nn.Module, *args: Any, keys: Any = (), **kwargs: Any) -> dict[Key, ModuleCall]:
    target = target_of(model, *args, **kwargs)
    return record_calls(target.model, target.call, target.tensors, keys)


class Inner(nn.Module):
    """Takes a tensor by position and by name, and other things."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor, text: str = "") -> Any:
        return {"y": self.linear(x) * scale, "text": text}


class Outer(nn.Module):
    """Calls the same module twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        once = self.inner(x, scale=torch.full((1,), 2.0), text="a")
        return self.inner(once["y"], scale=torch.full((1,), 3.0))["y"]


def test_calls_end_before_the_calls_around_them() -> None:
    calls = record(Outer(), torch.ones(2, 3))
    assert list(calls) == [
        *(("inner.linear", 0), ("inner", 0), ("inner.linear", 1), ("inner", 1), ("", 0))
    ]
    assert [call.caller for call in calls.values()] == [
        *(("inner", 0), ("", 0), ("inner", 1), ("", 0), None)
    ]
    assert all(call.key == key for key, call in calls.items())


def test_sizes_count_arguments_and_results() -> None:
    sizes = {key: call.size for key, call in record(Outer(), torch.ones(2, 3)).items()}
    assert sizes == {
        ("inner.linear", 0): 48,  # six floats, twice
        ("inner", 0): 52,  # and a scale
        ("inner.linear", 1): 48,
        ("inner", 1): 52,
        ("", 0): 48,
    }


def test_arguments_and_results_are_recorded_only_where_requested() -> None:
    model, x = Outer().eval(), torch.ones(2, 3)
    calls = record(model, x, keys=[("inner", 1)])
    assert [key for key, call in calls.items() if call.call or call.result] == [("inner", 1)]
    call = calls["inner", 1]
    assert call.call is not None
    assert call.result is not None
    args, kwargs = call.call.fill(call.tensors)
    with torch.no_grad():
        found = model.inner(*args, **kwargs)
    torch.testing.assert_close(found["y"], call.returned[0], rtol=0, atol=0)
    assert (kwargs.get("text", ""), found["text"]) == ("", "")
    (result,), _ = call.result.fill(call.returned)
    assert result["text"] == ""


def test_recorded_tensors_are_those_of_before_the_call() -> None:
    class Doubles(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2)

    model, x = nn.Sequential(Doubles(), Doubles()), torch.ones(2)
    calls = record(model, x, keys=[("0", 0), ("1", 0)])
    given = {key[0]: calls[key].tensors[0].tolist() for key in [("0", 0), ("1", 0)]}
    returned = {key[0]: calls[key].returned[0].tolist() for key in [("0", 0), ("1", 0)]}
    assert given == {"0": [1, 1], "1": [2, 2]}
    assert returned == {"0": [2, 2], "1": [4, 4]}
    assert x.tolist() == [1, 1]  # the caller's tensor stays


def test_arguments_are_those_of_before_the_hooks_of_the_module() -> None:
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
    calls = record(nn.Sequential(layer), torch.zeros(1), keys=[("0", 0)])
    assert calls["0", 0].tensors[0].item() == 0  # the hook runs again in a call alone
    assert calls["0", 0].returned[0].item() == 1


def test_a_call_that_raised_is_no_call_of_the_result() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.inside(x)
            if y.sum() < 0:
                raise ValueError("negative")
            return y

    class Catches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fails, self.last = Fails(), nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.fails(-x)
            except ValueError:
                return self.last(self.fails(x))

    model = Catches()
    calls = record(model, torch.ones(1))
    assert list(calls) == [
        *(("fails.inside", 0), ("fails.inside", 1), ("fails", 1), ("last", 0), ("", 0))
    ]
    assert calls["", 0].caller is None
    # The same numbers as those of the outputs.
    shapes = target_of(model, torch.ones(1)).shapes
    assert {output.key for output in shapes} == set(calls)
    assert ModuleOutput("fails", 1, 0) in shapes


def test_hooks_are_gone_even_if_the_model_raises() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("always")

    model = nn.Sequential(nn.Identity(), Fails())
    target = target_of(nn.Identity(), torch.ones(1))
    with pytest.raises(ValueError, match="always"):
        record_calls(model, target.call, target.tensors)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_model_runs_in_evaluation_and_goes_back_to_its_mode() -> None:
    modes: list[bool] = []

    class Mode(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            modes.append(self.training)
            return x

    model = nn.Sequential(Mode()).train()
    record(model, torch.ones(1))
    assert not any(modes)
    assert model.training
    assert model[0].training


def test_a_model_without_tensor_arguments_has_a_call() -> None:
    class Constant(nn.Module):
        def forward(self, size: int) -> torch.Tensor:
            return torch.ones(size)

    calls = record(Constant(), 3, keys=[("", 0)])
    assert (calls["", 0].tensors, calls["", 0].size) == ((), 12)
    assert calls["", 0].returned[0].tolist() == [1, 1, 1]
