"""The contract of a wrapper, tested with an engine in NumPy."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from enginebay.errors import InferenceError, InputError, UsageError
from enginebay.inference.receipt import Receipt
from enginebay.inference.timing import count_time
from enginebay.inference.wrapper import Wrapper
from enginebay.tensors.spec import TensorSpec

X = TensorSpec("x", "float32", ("batch", 3))
Y = TensorSpec("y", "float32", ("batch", 3))
STATIC = TensorSpec("x", "float32", (2, 3))
MASK = TensorSpec("mask", "bool", ("batch",))
OUT = (TensorSpec("double", "float32", ("batch", 3)), TensorSpec("sum", "float32", ()))


class Doubler(Wrapper):
    """Returns 2 x and the sum of x, and counts the engine's calls."""

    def __init__(self, *inputs: TensorSpec) -> None:
        super().__init__(inputs=inputs or (X,), outputs=OUT)
        self.calls = 0
        self.released = 0
        self.overlapping = 0
        self.most_overlapping = 0

    @property
    def receipt(self) -> Receipt:
        return Receipt(device="cpu", engine="doubler 1")

    def execute(self, feed: dict[str, Any]) -> list[Any]:
        self.calls += 1
        self.overlapping += 1
        self.most_overlapping = max(self.most_overlapping, self.overlapping)
        x = feed["x"]
        result = [x * np.float32(2), np.asarray(x.sum(), dtype=np.float32)]
        self.overlapping -= 1
        return result

    def release(self) -> None:
        self.released += 1


def test_subclass_may_use_any_private_names() -> None:
    class Private(Doubler):
        def __init__(self) -> None:
            super().__init__()
            self._run = self._named = self._lock = self._closed = "the engine's"
            self._exact = self._counter = self._input_check = None

    with Private() as wrapper:
        assert wrapper(np.ones((2, 3), np.float32))[1] == 6


@pytest.mark.parametrize("spec", [X, STATIC])
def test_numpy_inputs_return_numpy_outputs_in_declared_order(spec: TensorSpec) -> None:
    outputs = Doubler(spec)({"x": np.ones((2, 3), np.float32)})
    assert list(outputs) == ["double", "sum"]
    assert all(type(value) is np.ndarray for value in outputs.values())
    np.testing.assert_array_equal(outputs["double"], np.full((2, 3), 2.0))


@pytest.mark.parametrize("spec", [X, STATIC])
@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        ([np.ones(1)], "1 outputs"),
        ([np.ones(1)] * 3, "3 outputs"),
        (None, "a NoneType"),
        ({"double": np.ones(1), "sum": np.ones(1)}, "a dict"),
        (np.ones(2), "a ndarray"),
        ("ab", "a str"),
        ((np.ones(1) for _ in range(2)), "a generator"),
    ],
)
@pytest.mark.parametrize("x", [np.ones((2, 3), np.float32), torch.ones(2, 3)])
def test_wrong_outputs_of_a_backend_raise(
    spec: TensorSpec, outputs: Any, found: str, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Doubler, "execute", lambda self, feed: outputs)
    with pytest.raises(InferenceError) as caught:
        Doubler(spec)({"x": x})
    assert str(caught.value) == f"doubler 1 returned {found}, expected a list of 2: double, sum"


@pytest.mark.parametrize("spec", [X, STATIC])
def test_torch_inputs_return_torch_outputs(spec: TensorSpec) -> None:
    outputs = Doubler(spec)({"x": torch.ones(2, 3)})
    assert all(isinstance(value, torch.Tensor) for value in outputs.values())
    assert outputs["sum"].item() == 6


@pytest.mark.parametrize("spec", [X, STATIC])
@pytest.mark.parametrize(
    "x",
    [
        torch.ones(2, 3, requires_grad=True),
        torch.nn.Parameter(torch.ones(2, 3)),
        torch.ones(3, 2).T,
        torch.ones(1, 3).expand(2, 3),
        torch.ones(2, 3, dtype=torch.complex64).conj().real,
        -torch.ones(2, 3, dtype=torch.complex64).conj().imag + 1,
    ],
    ids=["requires grad", "parameter", "transposed", "expanded", "real", "negated"],
)
def test_every_kind_of_tensor_is_accepted(spec: TensorSpec, x: torch.Tensor) -> None:
    outputs = Doubler(spec)({"x": x})
    assert torch.equal(outputs["double"], x.detach() * 2)
    assert outputs["sum"].item() == x.sum().item()


@pytest.mark.parametrize("spec", [X, STATIC])
def test_mixed_tensors_and_arrays_return_tensors(spec: TensorSpec) -> None:
    mask = TensorSpec("mask", "bool", (2,))
    outputs = Doubler(spec, mask)({"x": np.ones((2, 3), np.float32), "mask": torch.ones(2).bool()})
    assert torch.equal(outputs["double"], torch.full((2, 3), 2.0))


@pytest.mark.parametrize("spec", [X, STATIC])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(2, 3, dtype=torch.float64), "input 'x' has dtype float64, expected float32"),
        (torch.ones(2, 4), "input 'x' has size 4 in dimension 1"),
        (torch.ones(6), "input 'x' has 1 dimensions"),
    ],
)
def test_a_wrong_tensor_is_refused_before_the_engine(
    spec: TensorSpec, x: torch.Tensor, message: str
) -> None:
    wrapper = Doubler(spec)
    with pytest.raises(InputError, match=message):
        wrapper({"x": x})
    assert wrapper.calls == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_dtype_is_preserved(dtype: torch.dtype) -> None:
    class Same(Doubler):
        def execute(self, feed: dict[str, Any]) -> list[Any]:
            return [feed["x"], feed["x"].sum()]

    wrapper = Same(TensorSpec("x", str(dtype).removeprefix("torch."), (2, 3)))
    x = torch.linspace(0, 1, 6).reshape(2, 3).to(dtype)
    assert torch.equal(wrapper({"x": x})["double"], x)


@given(
    npst.arrays(
        np.float32, npst.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-9, 9, width=32)
    ),
    st.sampled_from(["C", "F", "reversed", "strided", "broadcast"]),
)
def test_any_memory_layout_is_accepted_and_not_modified(base: Any, layout: str) -> None:
    x = {
        "C": base,
        "F": np.asfortranarray(base),
        "reversed": base[::-1, ::-1],
        "strided": np.repeat(base, 2, axis=0)[::2],
        "broadcast": np.broadcast_to(base[:1], base.shape),
    }[layout]
    wrapper = Doubler(TensorSpec("x", "float32", ("n", "m")))
    before = x.copy()
    np.testing.assert_array_equal(wrapper({"x": x})["double"], before * 2)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(
        wrapper({"x": torch.tensor(before).T.clone().T})["double"], before * 2
    )


def test_dimension_of_size_zero_is_accepted() -> None:
    outputs = Doubler()({"x": np.empty((0, 3), np.float32)})
    assert outputs["double"].shape == (0, 3)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing: the model takes x, mask"),
        (
            {"x": np.ones((2, 3), np.float32), "mask": np.ones(2, bool), "msk": 1},
            "unknown input 'msk': the model takes x, mask",
        ),
        (
            {"x": np.ones((2, 3)), "mask": np.ones(2, bool)},
            "input 'x' has dtype float64, expected float32",
        ),
        (
            {"x": np.ones((2, 3, 1), np.float32), "mask": np.ones(2, bool)},
            "input 'x' has 3 dimensions (2, 3, 1), expected 2: x float32[batch, 3]",
        ),
        (
            {"x": np.ones((2, 4), np.float32), "mask": np.ones(2, bool)},
            "input 'x' has size 4 in dimension 1 of (2, 4), expected 3: x float32[batch, 3]",
        ),
        (
            {"x": np.ones((2, 3), np.float32), "mask": np.ones(5, bool)},
            (
                "dimension 'batch' has size 5 in input 'mask', but size 2 in input 'x': "
                "the sizes must be equal"
            ),
        ),
    ],
)
def test_wrong_inputs_are_refused_before_the_engine(inputs: Any, message: str) -> None:
    wrapper = Doubler(X, MASK)
    with pytest.raises(InputError) as caught:
        wrapper(inputs)
    assert str(caught.value) == message
    assert wrapper.calls == 0


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("input", "mask"), "rename 'input' to 'x'"),
        (("input", "other"), "rename 'input' or 'other' to 'x' or 'mask'"),
        (("x", "mask", "label"), "leave 'label' out"),
    ],
)
def test_an_unknown_name_is_renamed_if_an_input_is_missing(
    names: tuple[str, ...], hint: str
) -> None:
    arrays = {name: np.ones((2, 3), np.float32) for name in names}
    with pytest.raises(InputError) as caught:
        Doubler(X, MASK)(arrays)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("limits", "rows", "message", "hint"),
    [
        ((1, 8), 0, "has size 0 in dimension 0 of (0, 3)", "x:0=batch:0:8"),
        ((2, 8), 9, "has size 9 in dimension 0 of (9, 3)", "x:0=batch:2:9"),
        ((1, None), 0, "has size 0 in dimension 0 of (0, 3)", "x:0=batch:0:10"),
    ],
)
def test_sizes_beyond_the_limits_are_refused_before_the_engine(
    limits: tuple[int, int | None], rows: int, message: str, hint: str
) -> None:
    wrapper = Doubler(X, MASK)
    wrapper.limit_sizes({"x": {0: limits}})
    for make in (np.ones, torch.ones):
        inputs = {
            "x": make((rows, 3), dtype=np.float32 if make is np.ones else torch.float32),
            "mask": make((rows,), dtype=bool if make is np.ones else torch.bool),
        }
        with pytest.raises(InputError) as caught:
            wrapper(inputs)
        low, high = limits
        made_for = f"{low} or more" if high is None else f"{low} to {high}"
        assert str(caught.value) == (
            f"input 'x' {message}, but the artifact was made for sizes of {made_for}: "
            "x float32[batch, 3]"
        )
        assert caught.value.hint == (
            f"deploy with a larger range: --dynamic {hint} (for an ONNX file --min-shapes and "
            "--max-shapes)"
        )
    assert wrapper.calls == 0
    inside = np.ones((high or 50, 3), np.float32)
    assert wrapper({"x": inside, "mask": np.ones(len(inside), bool)})["sum"] == inside.size


OPEN = "deploy with --dynamic x:{} to make this dimension dynamic"


@pytest.mark.parametrize(
    ("dtype", "shape", "hint"),
    [
        ("float32", (1, 1, 8, 8), "if 'x' holds images, give them 3 channels; if not, " + OPEN),
        (
            "float32",
            (1, 8, 8, 3),
            "if 'x' holds images, pass them as N×C×H×W, not N×H×W×C; if not, " + OPEN,
        ),
        ("float32", (4, 3, 8, 8), OPEN),
        ("float32", (1, 3, 9, 8), OPEN),
        ("int64", (1, 1, 8, 8), OPEN),
    ],
)
def test_wrong_size_hints_at_the_layout_or_an_open_dimension(
    dtype: str, shape: tuple[int, ...], hint: str
) -> None:
    wanted = (1, 3, 8, 8)
    axis = next(axis for axis in range(4) if shape[axis] != wanted[axis])
    with pytest.raises(InputError) as caught:
        Doubler(TensorSpec("x", dtype, wanted))({"x": np.ones(shape, dtype)})
    assert caught.value.hint == hint.format(axis)


class Masked(Wrapper):
    """Returns x where the mask is true."""

    receipt = Receipt(device="cpu", engine="masked 1")

    def __init__(self) -> None:
        super().__init__(inputs=(X, MASK), outputs=(Y,))

    def execute(self, feed: dict[str, Any]) -> list[Any]:
        return [feed["x"][feed["mask"]]]


ONES = np.ones((2, 3), np.float32)
BOTH = np.ones(2, bool)


@pytest.mark.parametrize("spec", [X, STATIC])
@pytest.mark.parametrize("x", [ONES, torch.ones(2, 3)])
def test_positional_call_returns_as_the_model_does(spec: TensorSpec, x: Any) -> None:
    for double, total in (Doubler(spec)(x), Doubler(spec)(x=x)):
        assert type(double) is type(total) is type(x)
        assert float(total) == 6


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_positional_and_named_inputs_return_the_only_output(kind: Any) -> None:
    wrapper, x, mask = Masked(), kind(ONES), kind(np.array([True, False]))
    for found in (wrapper(x, mask), wrapper(x, mask=mask), wrapper(mask=mask, x=x)):
        assert type(found) is type(x)
        assert found.tolist() == [[1, 1, 1]]
    inputs = {"mask": mask, "x": x}
    assert list(wrapper.run(inputs)) == list(wrapper(inputs)) == ["y"]


def test_model_without_inputs_is_called_without_arguments() -> None:
    class Constant(Wrapper):
        receipt = Receipt(device="cpu", engine="constant 1")

        def execute(self, feed: dict[str, Any]) -> list[Any]:
            return [np.ones(3)]

    assert Constant(inputs=(), outputs=(Y,))().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("given", "named", "kinds"),
    [
        ((), {}, ""),
        ((ONES,), {}, "ndarray"),
        ((ONES, BOTH, BOTH), {}, "ndarray, ndarray, ndarray"),
        ((ONES,), {"x": ONES}, "ndarray, x=ndarray"),
        ((ONES, {"mask": BOTH}), {}, "ndarray, dict"),
        (({"x": ONES},), {"mask": BOTH}, "dict, mask=ndarray"),
        ((ONES,), {"mask": 0.5}, "ndarray, mask=float"),
        (([ONES, BOTH],), {}, "list"),
        ((None, BOTH), {}, "NoneType, ndarray"),
    ],
)
def test_wrong_arguments_raise_with_the_expected_inputs(given: Any, named: Any, kinds: str) -> None:
    wrapper = Doubler(X, MASK)
    with pytest.raises(InputError) as caught:
        wrapper(*given, **named)
    expected = "expected arrays or tensors x float32[batch, 3], mask bool[batch]"
    assert str(caught.value) == f"wrong inputs: {expected}; found ({kinds})"
    assert caught.value.hint == "pass the inputs in this order, or as a dict: {'x': …, 'mask': …}"
    assert wrapper.calls == 0


def test_inputs_may_be_any_mapping() -> None:
    inputs = MappingProxyType({"x": np.ones((2, 3), np.float32)})
    assert Doubler(STATIC)(inputs)["sum"] == 6


def test_dtype_hint_shows_the_conversion_of_the_given_type() -> None:
    for x, call in (
        (np.ones((2, 3)), "astype('float32')"),
        (torch.ones(2, 3).double(), "to(torch.float32)"),
    ):
        with pytest.raises(InputError) as caught:
            Doubler()(x)
        assert caught.value.hint == f"convert it: x.{call}"


def test_a_missing_input_does_not_reuse_the_previous_one() -> None:
    wrapper = Doubler(X, MASK)
    wrapper({"x": np.ones((2, 3), np.float32), "mask": np.ones(2, bool)})
    with pytest.raises(InputError, match="input 'mask' is missing"):
        wrapper({"x": np.ones((2, 3), np.float32)})


def test_misspelled_input_hints_at_the_nearest_name() -> None:
    with pytest.raises(InputError) as caught:
        Doubler(X, MASK)({"x": np.ones((2, 3), np.float32), "maks": np.ones(2, bool)})
    assert caught.value.hint == "did you mean 'mask'?"


def test_an_engine_failure_names_the_engine_and_the_inputs() -> None:
    class Failing(Doubler):
        def execute(self, feed: dict[str, Any]) -> list[Any]:
            raise RuntimeError("out of fuel")

    with pytest.raises(InferenceError) as caught:
        Failing()({"x": np.ones((2, 3), np.float32)})
    assert str(caught.value) == "doubler 1 failed on x float32(2, 3): out of fuel"
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("concurrent", [False, True])
def test_only_concurrent_engines_run_calls_in_parallel(concurrent: bool) -> None:
    started = threading.Barrier(2, timeout=100)

    class Meeting(Doubler):
        def execute(self, feed: dict[str, Any]) -> list[Any]:
            self.overlapping += 1
            self.most_overlapping = max(self.most_overlapping, self.overlapping)
            if type(self).concurrent:
                started.wait()  # returns only when both threads are in here
            self.overlapping -= 1
            return [feed["x"], feed["x"].sum()]

    Meeting.concurrent = concurrent
    wrapper = Meeting()
    threads = [
        threading.Thread(target=lambda: [wrapper({"x": np.ones((2, 3), np.float32)})])
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrapper.most_overlapping == (2 if concurrent else 1)


def test_close_is_idempotent_and_final() -> None:
    with Doubler(STATIC) as wrapper:
        wrapper({"x": np.ones((2, 3), np.float32)})
    wrapper.close()
    assert wrapper.released == 1
    with pytest.raises(UsageError, match="this wrapper is closed"):
        wrapper({"x": np.ones((2, 3), np.float32)})


def test_output_to_list_has_the_order_of_the_model() -> None:
    wrapper = Doubler()
    assert wrapper.output_to_list({"sum": 1, "double": 2}) == [2, 1]


def test_time_execution_counts_the_engine_calls_after_the_warm_up() -> None:
    wrapper = Doubler()
    x = {"x": np.ones((2, 3), np.float32)}
    with wrapper.time_execution(warmup=2) as timing:
        for _ in range(5):
            wrapper(x)
    wrapper(x)
    assert timing.count == 3
    summary = timing.statistics()
    assert summary.runs == 3
    assert 0 < summary.min <= summary.low <= summary.median <= summary.high <= summary.max
    assert summary.p90 is summary.p99 is None


def test_statistics_without_a_counted_call_raise() -> None:
    with (
        Doubler().time_execution(warmup=1) as timing,
        pytest.raises(ValueError, match=r"no call of 'engine' was timed \(warm-up calls: 1\)"),
    ):
        timing.statistics()


def test_timing_waits_for_the_device() -> None:
    class Asynchronous(Doubler):
        waits = 0

        def synchronize(self) -> None:
            self.waits += 1

    wrapper = Asynchronous()
    with wrapper.time_execution():
        wrapper({"x": np.ones((2, 3), np.float32)})
    with wrapper.time_execution(with_sync=False):
        wrapper({"x": np.ones((2, 3), np.float32)})
    assert wrapper.waits == 2


class Parts(Doubler):
    """Doubles in two marked steps; the second may raise."""

    def execute(self, feed: dict[str, Any]) -> list[Any]:
        return [*self.decoded(super().execute(self.copied(feed)))]

    @count_time("copy")
    def copied(self, feed: dict[str, Any]) -> dict[str, Any]:
        return {name: array.copy() for name, array in feed.items()}

    @staticmethod
    @count_time("decode")
    def decoded(outputs: list[Any]) -> list[Any]:
        if outputs[0].max() > 100:
            raise ValueError("too large")
        return outputs


def test_marked_parts_are_counted_by_name() -> None:
    wrapper = Parts()
    x = {"x": np.ones((2, 3), np.float32)}
    with wrapper.time_execution(warmup=1) as timing:
        assert timing.names == ("engine",)
        for _ in range(4):
            wrapper(x)
        with pytest.raises(InferenceError, match="too large"):
            wrapper({"x": np.full((2, 3), 100, np.float32)})
    wrapper(x)
    assert timing.names == ("engine", "copy", "decode")
    assert timing.statistics("copy").runs == 4  # the call that raised was copied, too
    assert timing.statistics("decode").runs == timing.statistics().runs == 3
    assert timing.statistics("copy").min < timing.statistics().min
    with pytest.raises(ValueError, match=r"^no call of 'dance' was timed \(warm-up calls: 1\)$"):
        timing.statistics("dance")


def test_marked_method_is_called_directly_outside_of_timing() -> None:
    wrapper = Parts()
    before = set(vars(wrapper))
    with wrapper.time_execution(), wrapper.time_execution() as inner:
        wrapper({"x": np.ones((2, 3), np.float32)})
    assert inner.statistics("copy").runs == 1
    assert set(vars(wrapper)) == before
    assert wrapper.copied.__func__ is Parts.copied
    assert Parts.copied.__name__ == "copied"


def test_averages_are_logged_every_n_calls(caplog: pytest.LogCaptureFixture) -> None:
    wrapper = Parts()
    with (
        caplog.at_level("INFO", logger="enginebay.inference"),
        wrapper.time_execution(warmup=1, log_every=2),
    ):
        for _ in range(6):
            wrapper({"x": np.ones((2, 3), np.float32)})
    assert [re.sub(r"[\d.]+ ms", "T", message) for message in caplog.messages] == [
        f"{name}: T on average of {count} calls"
        for count in (2, 4)
        for name in ("copy", "decode", "engine")
    ]


def test_calls_of_many_threads_are_all_counted() -> None:
    class Concurrent(Doubler):
        concurrent = True

    wrapper = Concurrent()
    x = {"x": np.ones((2, 3), np.float32)}
    with wrapper.time_execution(warmup=10) as timing, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: wrapper(x), range(400)))
    assert timing.count == 390


@pytest.mark.parametrize("spec", [X, STATIC])
def test_tensors_on_the_engines_device_bypass_the_host(spec: TensorSpec) -> None:
    class Native(Doubler):
        native_device = "cpu"

        def execute(self, feed: dict[str, Any]) -> list[Any]:
            raise AssertionError("went through the host")

        def execute_torch(self, feed: dict[str, torch.Tensor]) -> list[torch.Tensor]:
            return [feed["x"] * 2, feed["x"].sum()]

    wrapper = Native(spec)
    assert wrapper({"x": torch.ones(2, 3)})["sum"].item() == 6
    with pytest.raises(
        InputError, match=r"input 'x' has dtype torch\.float64, expected torch\.float32"
    ):
        wrapper({"x": torch.ones(2, 3, dtype=torch.float64)})
    with pytest.raises(InputError, match="input 'x' has size 2 in dimension 1"):
        wrapper({"x": torch.ones(2, 2)})


@pytest.mark.process
def test_numpy_inference_imports_no_torch() -> None:
    code = (
        "import sys, numpy as np\n"
        "from enginebay.inference.wrapper import Wrapper\n"
        "from enginebay.inference.receipt import Receipt\n"
        "from enginebay.tensors.spec import TensorSpec\n"
        "class Same(Wrapper):\n"
        "    receipt = Receipt(device='cpu')\n"
        "    def execute(self, feed): return [feed['x']]\n"
        "spec = (TensorSpec('x', 'float32', ('n',)),)\n"
        "assert Same(inputs=spec, outputs=spec)({'x': np.ones(3, np.float32)})['x'].shape == (3,)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


def test_engine_error_with_a_failing_str_is_an_inference_error() -> None:
    class Failing(Doubler):
        def execute(self, feed: dict[str, Any]) -> list[Any]:
            raise Mute

    with pytest.raises(InferenceError, match=r"doubler 1 failed on x .*<exception str\(\) failed>"):
        Failing()({"x": np.ones((1, 3), np.float32)})
