"""OpenVINO's part of the wrapper; the conformance kit tests the contract."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from enginebay.errors import InferenceError, InputError, UsageError

RELU = "(float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }"


def test_a_model_without_inputs_runs(load):
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


def test_calls_from_many_threads_return_their_own_results(load):
    text = "(float[n, n] x) => (float[n, n] y) { y = MatMul(x, x) }"
    wrapper = load(text, performance_hint="throughput")

    def call(number):
        x = np.full((number % 7 + 1,) * 2, number, np.float32)
        return np.array_equal(wrapper({"x": x})["y"], x @ x)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(200)))


def test_an_engine_error_names_the_inputs(load):
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
        ({"x": np.ones((1, 3))}, "input 'x' has dtype float64, expected float32"),
        (
            {"x": np.ones((1, 4), np.float32)},
            "input 'x' has size 4 in dimension 1 of (1, 4), expected 3: x float32[n, 3]",
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


def test_submitted_calls_return_their_own_results(load):
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
    for future in futures:  # a call that had begun ends well; the others are refused
        try:
            assert future.result()["y"].shape == (2000, 3)
        except UsageError as err:
            assert str(err) == "this wrapper is closed"  # noqa: PT017  # either end is right
    with pytest.raises(UsageError, match=r"^this wrapper is closed\nhint: [^\n]+$"):
        wrapper.submit({"x": np.ones((1, 3), np.float32)})
