"""The wrapper contract on real compiled models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import enginebay as eb
from enginebay.errors import InferenceError, InputError, UsageError

TWO_OUTPUTS = (
    "(float[a, b] x, float[a, b] z) => (float[a, b] sum, float[b, a] turned)"
    " { sum = Add(x, z)  turned = Transpose(x) }"
)
RELU = "(float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }"


@pytest.fixture(scope="module")
def shared(write):
    model = write(TWO_OUTPUTS)
    backend = eb.get_backend("openvino")
    backend.to_backend(model, work_dir=str(model.parent))
    with backend.build_wrapper(work_dir=str(model.parent)) as wrapper:
        yield wrapper


@given(
    rows=st.integers(0, 5),
    columns=st.integers(0, 5),
    steps=st.tuples(*[st.sampled_from([-3, -1, 1, 2])] * 2),
    turned=st.booleans(),
    as_torch=st.booleans(),
)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_strides_and_sizes(shared, rows, columns, steps, turned, as_torch):
    x = np.arange(rows * columns * 9, dtype=np.float32).reshape(rows * 3, columns * 3)
    x = x[:: steps[0], :: steps[1]]
    x = x.T if turned else x
    z = np.broadcast_to(np.float32(0.5), x.shape)
    inputs = {"x": x, "z": z}
    if as_torch:
        inputs = {
            name: torch.tensor(value.copy()).T.contiguous().T for name, value in inputs.items()
        }
    out = shared(inputs)
    assert all(isinstance(value, torch.Tensor) == as_torch for value in out.values())
    np.testing.assert_array_equal(np.asarray(out["sum"]), x + z)
    np.testing.assert_array_equal(np.asarray(out["turned"]), x.T)


def test_several_inputs_that_cannot_be_shared(load):
    """Each is copied for the engine, which holds bare pointers to the copies until it has run."""
    wrapper = load(
        "(float[2, 3] a, float[2, 3] b, float[2, 3] c) => (float[6, 3] y)"
        " { y = Concat<axis = 0>(a, b, c) }"
    )
    for number in range(20):
        given_ = [np.full((2, 3), 10 * number + n, np.float32) for n in range(3)]
        for array in given_:
            array.flags.writeable = False
        y = wrapper(dict(zip("abc", given_, strict=True)))["y"]
        np.testing.assert_array_equal(y, np.concatenate(given_))


def test_names_and_order_are_the_models(load):
    wrapper = load(TWO_OUTPUTS)
    assert wrapper.input_names == ("x", "z")
    assert wrapper.output_names == ("sum", "turned")
    ones = np.ones((2, 3), np.float32)
    assert list(wrapper({"z": ones, "x": ones * 2})) == ["sum", "turned"]
    assert wrapper({"z": ones, "x": ones * 2})["turned"].tolist() == [[2, 2]] * 3


def test_scalars_in_and_out(load):
    wrapper = load("(float[] x) => (float[] y) { y = Neg(x) }")
    for given_ in (np.array(2, np.float32), np.float32(2), torch.tensor(2.0)):
        y = wrapper({"x": given_})["y"]
        assert isinstance(y, torch.Tensor if isinstance(given_, torch.Tensor) else np.ndarray)
        assert tuple(y.shape) == ()
        assert float(y) == -2


def test_a_model_without_inputs(load):
    wrapper = load("() => (float[2] y) { c = Constant<value = float[2] {1, 2}>()  y = Neg(c) }")
    first = wrapper({})["y"]
    first[:] = 9
    assert wrapper({})["y"].tolist() == [-1, -2]


def test_an_output_that_is_an_input_is_a_copy(load):
    wrapper = load(
        "(float[n] x) => (float[n] y, float[n] z, float[1, m] w) {"
        " y = Identity(x)  z = Identity(y)"
        " s = Constant<value = int64[2] {1, -1}>()  w = Reshape(x, s) }"
    )
    x = np.ones(4, np.float32)
    out = wrapper({"x": x})
    assert not any(np.shares_memory(value, x) for value in out.values())
    assert not np.shares_memory(out["y"], out["z"])
    t = torch.ones(4)
    out = wrapper({"x": t})
    t[:] = 5
    assert all(value.flatten().tolist() == [1, 1, 1, 1] for value in out.values())


@given(sizes=st.lists(st.integers(0, 6), min_size=2, max_size=6))
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_was_returned_never_changes_and_inputs_never_do(shared, sizes):
    returned = []
    for number, size in enumerate(sizes):
        x = np.full((size, 2), number, np.float32)
        out = shared({"x": x, "z": x})
        np.testing.assert_array_equal(x, np.full((size, 2), number))
        returned.append((out, {name: value.copy() for name, value in out.items()}))
    for out, copies in returned:
        for name, value in out.items():
            np.testing.assert_array_equal(value, copies[name])
            value[:] = -1  # writable, and nobody else's


def test_two_wrappers_at_once(load):
    relu = load(RELU)
    other = load("(float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }")
    x = np.ones((1, 3), np.float32)
    for _ in range(3):
        assert relu({"x": x})["y"].tolist() == [[1, 1, 1]]
        assert other({"x": x})["y"].tolist() == [[-1, -1, -1]]
    other.close()
    assert relu({"x": x})["y"].tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("hint", ["latency", "throughput"])
def test_calls_from_many_threads(load, hint):
    wrapper = load("(float[n, n] x) => (float[n, n] y) { y = MatMul(x, x) }", performance_hint=hint)

    def call(number):
        x = np.full((number % 7 + 1,) * 2, number, np.float32)
        return np.array_equal(wrapper({"x": x})["y"], x @ x)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(200)))


def test_the_engines_own_error_names_what_was_given(load):
    wrapper = load("(float[a, b] x, float[c, d] z) => (float[a, d] y) { y = MatMul(x, z) }")
    with pytest.raises(InferenceError) as raised:
        wrapper({"x": np.ones((2, 3), np.float32), "z": np.ones((4, 5), np.float32)})
    message = str(raised.value)
    assert message.startswith("openvino 20")
    assert " failed on x float32(2, 3), z float32(4, 5): " in message
    assert "Exception from" not in message
    assert "\n" not in message
    ones = np.ones((3, 3), np.float32)
    assert wrapper({"x": ones, "z": ones})["y"].tolist() == [[3, 3, 3]] * 3


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing: the model takes x"),
        ({"x": np.ones((1, 3))}, "input 'x' has dtype float64, wanted float32"),
        (
            {"x": np.ones((1, 4), np.float32)},
            "input 'x' has size 4 in dimension 1 of (1, 4), wanted 3: x float32[n, 3]",
        ),
    ],
)
def test_a_wrong_input_is_refused_before_the_engine(load, inputs, message):
    wrapper = load(RELU)
    for call in (wrapper, lambda given_: wrapper.submit(given_).result()):
        with pytest.raises(InputError) as raised:
            call(inputs)
        assert str(raised.value) == message


def test_new_shapes_compile_nothing(load):
    wrapper = load(RELU)
    compiled = wrapper.compiled
    for size in (1, 7, 0, 300, 2):
        x = np.full((size, 3), -1.0, np.float32)
        assert wrapper({"x": x})["y"].shape == (size, 3)
    assert wrapper.compiled is compiled
    assert len(wrapper._idle) == 1  # one request has served them all


def test_submitted_calls(load):
    wrapper = load(RELU, performance_hint="throughput")
    x = np.empty((1, 3), np.float32)
    futures = []
    for number in range(50):
        x[:] = number  # the caller's own memory, free again once submit has returned
        futures.append(wrapper.submit({"x": x}))
    assert [future.result()["y"].tolist() for future in futures] == [
        [[number] * 3] for number in range(50)
    ]
    y = wrapper.submit({"x": torch.ones(2, 3)}).result()["y"]
    assert torch.equal(y, torch.ones(2, 3))


def test_closing_waits_for_submitted_calls(load):
    wrapper = load(RELU)
    futures = [wrapper.submit({"x": np.ones((2000, 3), np.float32)}) for _ in range(20)]
    wrapper.close()
    assert all(future.done() for future in futures)
    for future in futures:  # a call that had begun has ended well; the others say what happened
        try:
            assert future.result()["y"].shape == (2000, 3)
        except UsageError as err:
            assert str(err) == "this wrapper is closed"  # noqa: PT017  # either end is right
    with pytest.raises(UsageError, match=r"^this wrapper is closed$"):
        wrapper.submit({"x": np.ones((1, 3), np.float32)})


def test_closing_twice_and_calling_afterwards(load):
    wrapper = load(RELU)
    wrapper({"x": np.ones((1, 3), np.float32)})
    wrapper.close()
    wrapper.close()
    with pytest.raises(UsageError, match="this wrapper is closed"):
        wrapper({"x": np.ones((1, 3), np.float32)})
    assert not hasattr(wrapper, "compiled")
    assert wrapper.receipt.device == "cpu"


def test_the_engine_alone_is_timed(load):
    wrapper = load(RELU)
    with wrapper.time_execution(warmup=1) as timing:
        for _ in range(4):
            wrapper({"x": np.ones((1, 3), np.float32)})
    assert timing.count == 3
