from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import enginebay as eb
from enginebay.errors import InputError
from enginebay.models import BoundModel, DynamicDim, ModelSource, bind, find_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Text(nn.Module):
    """Two inputs, one of them optional, and a switch."""

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor | None = None, *, double: bool = False
    ) -> torch.Tensor:
        found = ids.float() if mask is None else ids * mask
        return found * 2 if double else found


class Nested(nn.Module):
    def forward(self, *parts: torch.Tensor, **named: Any) -> torch.Tensor:
        return parts[0] + named["pair"]["a"] + named["pair"]["b"][0]


def seen_by(model: nn.Module, *calls: Any) -> eb.RecordedCalls:
    """The record of these calls: positional arguments, and a dict of the others at their end."""
    with eb.record(model) as seen:
        for *args, kwargs in calls:
            model(*args, **kwargs)
    return seen


def bound(model: Any, seen: eb.RecordedCalls, **options: Any) -> BoundModel:
    return bind(find_model(model), seen, **options)


def sizes(*shapes: tuple[int, ...]) -> list[tuple[Any, ...]]:
    return [(torch.rand(shape), {}) for shape in shapes]


def test_sizes_that_differed_are_open_in_their_range() -> None:
    model = Text()
    calls = [((2, 5), (2, 5)), ((1, 7), (1, 7)), ((2, 5), (2, 5)), ((4, 3), (4, 3))]
    seen = seen_by(model, *((torch.ones(a), {"mask": torch.ones(b)}) for a, b in calls))
    found = bound(model, seen)
    batch, length = DynamicDim("ids_0", 1, 4, opt=2), DynamicDim("ids_1", 3, 7, opt=5)
    assert found.example_shapes == {"ids": (2, 5), "mask": (2, 5)}
    assert found.dynamic == {"ids": {0: batch, 1: length}, "mask": {0: batch, 1: length}}


@pytest.mark.parametrize(
    ("dynamic", "opened"),
    [
        (None, {0: DynamicDim("input_0", 1, 3, opt=1), 1: DynamicDim("input_1", 4, 6, opt=4)}),
        (
            {"input": {0: ("batch", 1, 9)}},
            {0: DynamicDim("batch", 1, 9), 1: DynamicDim("input_1", 4, 6, opt=4)},
        ),
        ({"input": {-2: "batch", 1: None}}, {0: DynamicDim("batch")}),
        ({"input": None}, {}),
    ],
)
def test_what_the_caller_names_wins(dynamic: Any, opened: dict[int, DynamicDim]) -> None:
    model = nn.ReLU()
    seen = seen_by(model, *sizes((1, 4), (3, 6), (1, 4)))
    assert bound(model, seen, dynamic=dynamic).dynamic.get("input", {}) == opened


def test_an_axis_takes_the_name_that_the_caller_gives_to_one_of_the_same_size() -> None:
    model = Text()
    calls = [(torch.ones(n, 2), torch.ones(n, 2), {}) for n in (1, 4)]
    opened = bound(model, seen_by(model, *calls), dynamic={"mask": {0: ("rows", 1, 8)}}).dynamic
    assert opened == {name: {0: DynamicDim("rows", 1, 8)} for name in ("ids", "mask")}
    closed = bound(model, seen_by(model, *calls), dynamic={"mask": None}).dynamic
    assert closed == {}


def test_smallest_and_largest_shapes_of_the_caller_win() -> None:
    model = nn.ReLU()
    seen = seen_by(model, *sizes((2, 4), (3, 6)))
    found = bound(model, seen, min_shapes={"input": (1, 6)}, max_shapes={"input": (9, 6)})
    assert found.dynamic == {"input": {0: DynamicDim("input_0", 1, 9, opt=3)}}


def test_arguments_may_be_nested_and_named_in_any_order() -> None:
    model = Nested()
    x = torch.rand(1, 2)
    named: list[dict[str, Any]] = [{"pair": {"a": x, "b": [x]}, "c": 1}, {"c": 1}]
    named[1]["pair"] = named[0]["pair"]
    seen = seen_by(model, *((x, each) for each in named))
    assert list(bound(model, seen).examples) == ["parts_0", "pair.a", "pair.b.0"]
    assert len(seen) == 2


def test_tensors_are_copied() -> None:
    model, x = nn.ReLU(inplace=True), torch.full((2, 2), -1.0)
    with eb.record(model) as seen:
        model(x)
        x.fill_(7.0)
    assert seen.example[0].eq(-1.0).all()
    [array], target = seen[0]
    assert (array == -1).all()
    assert target is None


def test_a_part_of_a_model_is_recorded() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    with eb.record(model[1]) as seen:
        model(torch.rand(2, 4))
    assert bound(model[1], seen).example_shapes == {"input": (2, 3)}


def test_a_copy_that_the_application_makes_is_recorded_and_can_be_pickled_afterwards() -> None:
    model = nn.Linear(2, 2)
    with eb.record(model) as seen:
        inner = copy.deepcopy(model)
        inner(torch.rand(1, 2))
    inner(torch.rand(1, 2))
    assert repr(seen) == "<RecordedCalls: 1 of 1 calls of Linear>"
    pickle.dumps(inner)


def test_what_is_compiled_is_recorded() -> None:
    model = nn.Linear(2, 2)
    model.compile(backend="eager")
    model(torch.rand(1, 2))
    assert len(seen_by(model, *sizes((1, 2), (3, 2)))) == 2
    compiled: Any = torch.compile(nn.Linear(2, 2), backend="eager")
    assert bound(compiled, seen_by(compiled, *sizes((1, 2)))).example_shapes == {"input": (1, 2)}


def test_the_model_is_left_without_hooks_where_the_application_raises() -> None:
    model = nn.ReLU()

    def application() -> None:
        model(torch.rand(1))
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"), eb.record(model) as seen:
        application()
    assert not model._forward_pre_hooks
    assert not model._forward_pre_hooks_with_kwargs
    model(torch.rand(1))
    assert len(seen) == 1


def test_threads_lose_no_call() -> None:
    model = nn.ReLU()
    with eb.record(model) as seen, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: model(torch.rand(n % 5 + 1, 2)), range(400)))
    assert repr(seen) == "<RecordedCalls: 64 of 400 calls of ReLU>"


def test_a_bounded_number_of_calls_is_kept_and_always_the_extreme_sizes() -> None:
    model = nn.ReLU()
    shapes = [(8, 8) for _ in range(1000)]
    shapes[300], shapes[301], shapes[999] = (1, 8), (8, 99), (50, 8)
    seen = seen_by(model, *((torch.zeros(shape), {}) for shape in shapes))
    kept = [array.shape for (array,), _ in (seen[n] for n in range(len(seen)))]
    assert len(kept) == 64
    assert {(1, 8), (8, 99), (50, 8)} <= {*kept}


def test_calls_that_are_not_kept_are_not_copied() -> None:
    class Copies(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.count += func is torch.ops.aten.clone.default
            return func(*args, **(kwargs or {}))

    x = torch.zeros(2)
    with Copies() as copies:
        seen_by(nn.ReLU(), *((x, {}) for _ in range(1000)))
    assert 64 < copies.count < 500


def test_the_calls_that_are_kept_come_from_all_of_them() -> None:
    model = nn.ReLU()
    seen = seen_by(model, *((torch.full((1,), float(n)), {}) for n in range(1000)))
    numbers = [array.item() for (array,), _ in (seen[n] for n in range(len(seen)))]
    assert 350 < np.mean(numbers) < 650


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
def test_the_domain_goes_from_the_least_to_the_greatest_number(dtype: torch.dtype) -> None:
    model = Text()
    mask = torch.ones(2, dtype=torch.bool)
    calls = [(torch.tensor(each, dtype=dtype), mask, {}) for each in ([1, 5], [3, 4], [2, 9])]
    assert seen_by(model, *calls).domain(["ids", "mask"]) == {"ids": (1.0, 9.0)}


def test_calls_of_other_sizes_are_left_out_where_an_axis_is_closed() -> None:
    model = nn.ReLU()
    seen = seen_by(model, *sizes((1, 4), (2, 4), (1, 6)))
    assert len(seen.fitting({"input": (1, 4)}, {"input": {0: DynamicDim("n")}})) == 2
    assert len(seen) == 3


def test_a_preview_gets_it_in_a_child_process() -> None:
    model = nn.Linear(4, 2)
    sent = pickle.loads(pickle.dumps((model, seen_by(model, *sizes((1, 4), (3, 4))))))
    assert bound(*sent).dynamic == {"input": {0: DynamicDim("input_0", 1, 3, opt=3)}}


def one_form(*calls: Any) -> Callable[[], Any]:
    def use() -> Any:
        model = Text()
        return bound(model, seen_by(model, *calls))

    return use


def test_no_call() -> None:
    with pytest.raises(InputError) as caught:
        one_form()()
    assert str(caught.value) == ("nothing has called the Text with a tensor while it was recorded")
    assert caught.value.hint == (
        "record the module that the application calls, such as pipeline.model: it may be a part "
        "of this one, or a copy"
    )


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (
            (torch.ones(3), {}),
            "'ids' is float32 of rank 2 in call 0, and float32 of rank 1",
        ),
        (
            (torch.ones(1, 3, dtype=torch.int64), {}),
            "'ids' is float32 of rank 2 in call 0, and int64 of rank 2",
        ),
        (
            (torch.ones(1, 3), torch.ones(1, 3), {}),
            "'mask' is missing in call 0, and float32 of rank 2",
        ),
        ((torch.ones(1, 3), {"double": True}), "'double' is missing in call 0, and True"),
    ],
)
def test_calls_that_differ_in_more_than_sizes(other: Any, difference: str) -> None:
    with pytest.raises(InputError) as caught:
        one_form((torch.ones(1, 2), {}), (torch.ones(4, 2), {}), other)()
    assert str(caught.value) == (
        f"the calls of the Text differ in more than sizes and values: {difference} in call 2"
    )
    assert caught.value.hint == (
        "an artifact has one form of call: record each form in a separate with block"
    )


def test_values_that_are_no_tensors_and_differ() -> None:
    x = torch.ones(1, 2)
    with pytest.raises(InputError, match="'double' is True in call 0, and False in call 1"):
        one_form((x, {"double": True}), (x, {"double": False}))()


def test_dicts_in_another_order() -> None:
    x, model = torch.ones(1), Nested()
    calls = [(x, {"pair": each}) for each in ({"a": x, "b": [x]}, {"b": [x], "a": x})]
    with pytest.raises(InputError, match="the arguments come in another order in call 1"):
        len(seen_by(model, *calls))


class Mode:
    def __init__(self, name: str) -> None:
        self.name = name


class EqualMode(Mode):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualMode) and self.name == other.name

    __hash__ = None  # type: ignore[assignment]  # as of any class that is only compared


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Mode("a"), Mode("b"), True),  # nobody can tell
        (EqualMode("a"), EqualMode("a"), True),
        (EqualMode("a"), EqualMode("b"), False),
        (torch.float32, torch.float16, False),
        (torch.device("cpu"), torch.device("cpu"), True),
    ],
)
def test_objects_among_the_arguments(one: Any, other: Any, *, same: bool) -> None:
    class Takes(nn.Module):
        def forward(self, x: torch.Tensor, mode: Any) -> torch.Tensor:
            return x

    seen = seen_by(Takes(), *((torch.ones(1), each, {}) for each in (one, other)))
    if same:
        assert len(seen) == 2
    else:
        with pytest.raises(InputError, match="'mode' is "):
            len(seen)


def test_an_object_that_is_no_module_names_those_in_it() -> None:
    class Pipeline:
        def __init__(self) -> None:
            self.name, self.model = "one", nn.ReLU()

    with pytest.raises(InputError) as caught, eb.record(Pipeline()):
        pass
    assert str(caught.value) == (
        "an object of type Pipeline cannot be recorded; expected an nn.Module"
    )
    assert caught.value.hint == "it has .model: record the one that is called"
    with pytest.raises(InputError, match="an object of type str"), eb.record("net.py:build"):
        pass


def test_use_inside_the_with() -> None:
    model = nn.ReLU()
    with eb.record(model) as seen:
        model(torch.ones(1))
        with pytest.raises(InputError) as caught:
            bound(model, seen)
    assert str(caught.value) == "the calls of the ReLU are still being recorded"
    assert caught.value.hint == "use them after the with block, not inside"


def test_another_model_than_the_one_deployed() -> None:
    recorded, other = nn.Linear(2, 1), nn.Linear(2, 1)
    seen = seen_by(recorded, *sizes((1, 2), (3, 2)))
    for source in (find_model(other), ModelSource(description="net.onnx")):
        with pytest.raises(InputError) as caught:
            bind(source, seen)
        assert str(caught.value) == "the calls were recorded on a different model, a Linear"
        assert caught.value.hint == (
            "pass the module that was recorded; for a copy of it pass seen.example"
        )
    assert bind(find_model(other), seen.example).example_shapes == {"input": (3, 2)}


@pytest.mark.usefixtures("loopback")
def test_a_deployment_is_verified_on_the_calls_unless_the_caller_says_otherwise(
    tmp_path: Path,
) -> None:
    model = nn.Softmax(-1)
    calls = sizes((1, 4), (5, 4), (2, 4), (2, 4), (2, 6))
    seen = seen_by(model, *calls)
    deployed = eb.deploy(
        model, seen, dynamic={"input": {1: None}}, backend="loopback", work_dir=tmp_path / "own"
    )
    manifest, basis = deployed.artifact.manifest, deployed.verification.basis
    values = torch.cat([x.ravel() for x, _ in calls])
    assert manifest.inputs[0].dims == ("input_0", 4)
    assert basis.labels[:5] == ("example", "item 0", "item 1", "item 2", "item 3")
    assert basis.labels[5] == "the sizes input:1x4"
    assert basis.domain == {"input": (values.min(), values.max())}
    assert manifest.data is not None
    assert manifest.data.source == "the RecordedCalls given as data"

    deployed = eb.deploy(
        model,
        seen,
        data=[{"input": np.ones((2, 4), np.float32)}],
        verify=eb.VerifyOptions(domain={"input": (-1.0, 1.0)}),
        backend="loopback",
        work_dir=tmp_path / "callers",
    )
    basis = deployed.verification.basis
    assert basis.labels[:2] == ("example", "item 0")
    assert "item 1" not in basis.labels
    assert basis.domain == {"input": (-1.0, 1.0)}
