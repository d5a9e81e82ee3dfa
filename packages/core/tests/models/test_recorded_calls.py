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
from enginebay.models import BoundModel, bind
from enginebay.params import DynamicDim
from enginebay.sources import ModelSource, find_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Text(nn.Module):
    """Two inputs, the second optional, and a switch."""

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor | None = None, *, double: bool = False
    ) -> torch.Tensor:
        result = ids.float() if mask is None else ids * mask
        return result * 2 if double else result


class Nested(nn.Module):
    def forward(self, *parts: torch.Tensor, **named: Any) -> torch.Tensor:
        return parts[0] + named["pair"]["a"] + named["pair"]["b"][0]


def calls_to(model: nn.Module, *calls: Any) -> eb.RecordedCalls:
    """Record these calls: positional arguments, then a dict of keyword arguments."""
    with eb.record(model) as seen:
        for *args, kwargs in calls:
            model(*args, **kwargs)
    return seen


def bound(model: Any, seen: eb.RecordedCalls, **options: Any) -> BoundModel:
    return bind(find_model(model), seen, **options)


def sizes(*shapes: tuple[int, ...]) -> list[tuple[Any, ...]]:
    return [(torch.rand(shape), {}) for shape in shapes]


def test_varying_sizes_become_dynamic_dimensions() -> None:
    model = Text()
    calls = [((2, 5), (2, 5)), ((1, 7), (1, 7)), ((2, 5), (2, 5)), ((4, 3), (4, 3))]
    seen = calls_to(model, *((torch.ones(a), {"mask": torch.ones(b)}) for a, b in calls))
    bound_model = bound(model, seen)
    batch, length = DynamicDim("ids_0", 1, 4, opt=2), DynamicDim("ids_1", 3, 7, opt=5)
    assert bound_model.example_shapes == {"ids": (2, 5), "mask": (2, 5)}
    assert bound_model.dynamic == {"ids": {0: batch, 1: length}, "mask": {0: batch, 1: length}}


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
def test_dynamic_option_overrides_recorded_sizes(
    dynamic: Any, opened: dict[int, DynamicDim]
) -> None:
    model = nn.ReLU()
    seen = calls_to(model, *sizes((1, 4), (3, 6), (1, 4)))
    assert bound(model, seen, dynamic=dynamic).dynamic.get("input", {}) == opened


def test_axes_of_equal_size_share_the_given_name() -> None:
    model = Text()
    calls = [(torch.ones(n, 2), torch.ones(n, 2), {}) for n in (1, 4)]
    opened = bound(model, calls_to(model, *calls), dynamic={"mask": {0: ("rows", 1, 8)}}).dynamic
    assert opened == {name: {0: DynamicDim("rows", 1, 8)} for name in ("ids", "mask")}
    closed = bound(model, calls_to(model, *calls), dynamic={"mask": None}).dynamic
    assert closed == {}


def test_given_shape_ranges_override_recorded_sizes() -> None:
    model = nn.ReLU()
    seen = calls_to(model, *sizes((2, 4), (3, 6)))
    bound_model = bound(model, seen, min_shapes={"input": (1, 6)}, max_shapes={"input": (9, 6)})
    assert bound_model.dynamic == {"input": {0: DynamicDim("input_0", 1, 9, opt=3)}}


def test_nested_and_reordered_keyword_arguments_are_recorded() -> None:
    model = Nested()
    x = torch.rand(1, 2)
    named: list[dict[str, Any]] = [{"pair": {"a": x, "b": [x]}, "c": 1}, {"c": 1}]
    named[1]["pair"] = named[0]["pair"]
    seen = calls_to(model, *((x, each) for each in named))
    assert list(bound(model, seen).examples) == ["parts_0", "pair.a", "pair.b.0"]
    assert len(seen) == 2


def test_recorded_tensors_are_copied_before_the_call() -> None:
    model, x = nn.ReLU(inplace=True), torch.full((2, 2), -1.0)
    with eb.record(model) as seen:
        model(x)
        x.fill_(7.0)
    assert seen.example[0].eq(-1.0).all()
    [array], target = seen[0]
    assert (array == -1).all()
    assert target is None


def test_calls_of_a_submodule_are_recorded() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    with eb.record(model[1]) as seen:
        model(torch.rand(2, 4))
    assert bound(model[1], seen).example_shapes == {"input": (2, 3)}


def test_deep_copy_is_recorded_and_stays_picklable() -> None:
    model = nn.Linear(2, 2)
    with eb.record(model) as seen:
        inner = copy.deepcopy(model)
        inner(torch.rand(1, 2))
    inner(torch.rand(1, 2))
    assert repr(seen) == "<RecordedCalls: 1 of 1 calls of Linear>"
    pickle.dumps(inner)


def test_calls_of_compiled_models_are_recorded() -> None:
    model = nn.Linear(2, 2)
    model.compile(backend="eager")
    model(torch.rand(1, 2))
    assert len(calls_to(model, *sizes((1, 2), (3, 2)))) == 2
    compiled: Any = torch.compile(nn.Linear(2, 2), backend="eager")
    assert bound(compiled, calls_to(compiled, *sizes((1, 2)))).example_shapes == {"input": (1, 2)}


def test_hooks_are_removed_when_the_application_raises() -> None:
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


def test_calls_from_threads_are_all_counted() -> None:
    model = nn.ReLU()
    with eb.record(model) as seen, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: model(torch.rand(n % 5 + 1, 2)), range(400)))
    assert repr(seen) == "<RecordedCalls: 64 of 400 calls of ReLU>"


def test_stored_calls_are_bounded_and_include_extreme_sizes() -> None:
    model = nn.ReLU()
    shapes = [(8, 8) for _ in range(1000)]
    shapes[300], shapes[301], shapes[999] = (1, 8), (8, 99), (50, 8)
    seen = calls_to(model, *((torch.zeros(shape), {}) for shape in shapes))
    stored = [array.shape for (array,), _ in (seen[n] for n in range(len(seen)))]
    assert len(stored) == 64
    assert {(1, 8), (8, 99), (50, 8)} <= {*stored}


def test_discarded_calls_are_not_copied() -> None:
    class Copies(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.count += func is torch.ops.aten.clone.default
            return func(*args, **(kwargs or {}))

    x = torch.zeros(2)
    with Copies() as copies:
        calls_to(nn.ReLU(), *((x, {}) for _ in range(1000)))
    assert 64 < copies.count < 500


def test_stored_calls_are_spread_over_the_recording() -> None:
    model = nn.ReLU()
    seen = calls_to(model, *((torch.full((1,), float(n)), {}) for n in range(1000)))
    numbers = [array.item() for (array,), _ in (seen[n] for n in range(len(seen)))]
    assert 350 < np.mean(numbers) < 650


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
def test_domain_spans_smallest_to_largest_recorded_value(dtype: torch.dtype) -> None:
    model = Text()
    mask = torch.ones(2, dtype=torch.bool)
    calls = [(torch.tensor(each, dtype=dtype), mask, {}) for each in ([1, 5], [3, 4], [2, 9])]
    assert calls_to(model, *calls).domain(["ids", "mask"]) == {"ids": (1.0, 9.0)}


def test_calls_of_other_sizes_on_closed_axes_are_left_out() -> None:
    model = nn.ReLU()
    seen = calls_to(model, *sizes((1, 4), (2, 4), (1, 6)))
    assert len(seen.fitting({"input": (1, 4)}, {"input": {0: DynamicDim("n")}})) == 2
    assert len(seen) == 3


def test_recorded_calls_survive_pickling() -> None:
    model = nn.Linear(4, 2)
    sent = pickle.loads(pickle.dumps((model, calls_to(model, *sizes((1, 4), (3, 4))))))
    assert bound(*sent).dynamic == {"input": {0: DynamicDim("input_0", 1, 3, opt=3)}}


def bound_calls(*calls: Any) -> Callable[[], Any]:
    def use() -> Any:
        model = Text()
        return bound(model, calls_to(model, *calls))

    return use


def test_recording_without_calls_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        bound_calls()()
    assert str(caught.value) == ("nothing has called the Text with a tensor while it was recorded")
    assert caught.value.hint == (
        "record the module that the application calls, such as pipeline.model; the application "
        "may call a submodule, or a copy"
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
def test_calls_that_differ_in_more_than_sizes_are_refused(other: Any, difference: str) -> None:
    with pytest.raises(InputError) as caught:
        bound_calls((torch.ones(1, 2), {}), (torch.ones(4, 2), {}), other)()
    assert str(caught.value) == (
        f"the calls of the Text differ in more than sizes and values: {difference} in call 2"
    )
    assert caught.value.hint == (
        "an artifact supports only one combination of arguments: record each combination in a "
        "separate with block"
    )


def test_varying_non_tensor_arguments_are_refused() -> None:
    x = torch.ones(1, 2)
    with pytest.raises(InputError, match="'double' is True in call 0, and False in call 1"):
        bound_calls((x, {"double": True}), (x, {"double": False}))()


def test_reordered_dict_arguments_are_refused() -> None:
    x, model = torch.ones(1), Nested()
    calls = [(x, {"pair": each}) for each in ({"a": x, "b": [x]}, {"b": [x], "a": x})]
    with pytest.raises(InputError, match="the arguments come in another order in call 1"):
        len(calls_to(model, *calls))


class Mode:
    def __init__(self, name: str) -> None:
        self.name = name


class EqualMode(Mode):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualMode) and self.name == other.name

    __hash__ = None  # type: ignore[assignment]  # as in any class that only defines __eq__


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (Mode("a"), Mode("b"), True),  # without __eq__ they cannot be compared
        (EqualMode("a"), EqualMode("a"), True),
        (EqualMode("a"), EqualMode("b"), False),
        (torch.float32, torch.float16, False),
        (torch.device("cpu"), torch.device("cpu"), True),
    ],
)
def test_object_arguments_that_compare_unequal_are_refused(
    first: Any, second: Any, *, same: bool
) -> None:
    class Takes(nn.Module):
        def forward(self, x: torch.Tensor, mode: Any) -> torch.Tensor:
            return x

    seen = calls_to(Takes(), *((torch.ones(1), each, {}) for each in (first, second)))
    if same:
        assert len(seen) == 2
    else:
        with pytest.raises(InputError, match="'mode' is "):
            len(seen)


def test_recording_a_non_module_suggests_its_modules() -> None:
    class Pipeline:
        def __init__(self) -> None:
            self.name, self.model = "one", nn.ReLU()

    with pytest.raises(InputError) as caught, eb.record(Pipeline()):
        pass
    assert str(caught.value) == (
        "an object of type Pipeline cannot be recorded; expected an nn.Module"
    )
    assert caught.value.hint == "record the module that is called: .model"
    with pytest.raises(InputError, match="an object of type str"), eb.record("net.py:build"):
        pass


def test_recorded_calls_are_refused_inside_the_with_block() -> None:
    model = nn.ReLU()
    with eb.record(model) as seen:
        model(torch.ones(1))
        with pytest.raises(InputError) as caught:
            bound(model, seen)
    assert str(caught.value) == "the calls of the ReLU are still being recorded"
    assert caught.value.hint == "use the calls after the with block, not inside"


def test_calls_of_a_different_model_are_refused() -> None:
    recorded, other = nn.Linear(2, 1), nn.Linear(2, 1)
    seen = calls_to(recorded, *sizes((1, 2), (3, 2)))
    for source in (find_model(other), ModelSource(description="net.onnx")):
        with pytest.raises(InputError) as caught:
            bind(source, seen)
        assert str(caught.value) == "the calls were recorded on a different model, of type Linear"
        assert caught.value.hint == (
            "pass the recorded module; to use a copy of the module, pass the recording's "
            "'example' as the inputs"
        )
    assert bind(find_model(other), seen.example).example_shapes == {"input": (3, 2)}


@pytest.mark.usefixtures("loopback")
def test_deployment_is_verified_on_recorded_calls_by_default(
    tmp_path: Path,
) -> None:
    model = nn.Softmax(-1)
    calls = sizes((1, 4), (5, 4), (2, 4), (2, 4), (2, 6))
    seen = calls_to(model, *calls)
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
