"""Engines with fixed sizes for a model with open dimensions, on ONNX Runtime's own provider."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from enginebay.errors import ParamsError
from enginebay_onnxruntime import sizes

ADD = "(float[n, m] x, float[m] z) => (float[n, m] y) { y = Add(x, z) }"


def inputs(n, m):
    return {"x": np.ones((n, m), np.float32), "z": np.arange(m, dtype=np.float32)}


def test_listed_sizes_and_others_give_the_same_results(load):
    with load(ADD, sizes={"n": [1, 4], "m": [3]}) as fixed, load(ADD) as dynamic:
        for n, m in [(4, 3), (1, 3), (2, 3), (4, 7)]:
            assert np.array_equal(fixed(inputs(n, m))["y"], dynamic(inputs(n, m))["y"])


def test_each_listed_combination_has_an_engine(load):
    wrapper = load(ADD, sizes={"n": [1, 4], "*": [3, 5]})
    shapes = {tuple(e.session.get_inputs()[0].shape) for e in wrapper._engines.values()}
    assert shapes == {(1, 3), (1, 5), (4, 3), (4, 5)}


def test_only_the_engines_that_were_used_last_are_kept(load, monkeypatch):
    monkeypatch.setattr(sizes, "_MOST_OTHERS", 2)
    wrapper = load(ADD, sizes={"*": [1]})
    for n in (2, 3, 2, 4, 1):
        wrapper(inputs(n, 1))
    assert list(wrapper._others) == [(2, 1), (4, 1)]


def test_threads_may_call_with_different_sizes(load):
    wrapper = load(ADD, sizes={"*": [1]})
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda n: wrapper(inputs(n, 2))["y"].shape, [1, 2, 3, 4] * 5)
    assert list(results) == [(n, 2) for n in [1, 2, 3, 4] * 5]


def test_a_model_without_open_dimensions_needs_no_sizes(load):
    wrapper = load("(float[2] x) => (float[2] y) { y = Relu(x) }", sizes={"batch": [1]})
    assert wrapper({"x": np.array([-1, 1], np.float32)})["y"].tolist() == [0, 1]


@pytest.mark.parametrize("given", [{"n": [2]}, {"*": [], "n": [2]}])
def test_missing_sizes_are_refused_before_the_build(load, given):
    with pytest.raises(ParamsError) as raised:
        load(ADD, sizes=given)
    assert str(raised.value) == "sizes has no numbers for the dimension 'm'"
    assert raised.value.hint == "--sizes m=1,4"


def test_sizes_are_positive_numbers(load):
    with pytest.raises(ParamsError) as raised:
        load(ADD, sizes={"n": [1, 0]})
    assert str(raised.value) == (
        "{'n': [1, 0]} does not fit OnnxruntimeParams.sizes: expected int >= 1 at [...][1]"
    )


def test_sizes_of_a_dimension_that_the_model_lacks_are_refused(load):
    with pytest.raises(ParamsError) as raised:
        load("(float[batch, 2] x) => (float[batch, 2] y) { y = Relu(x) }", sizes={"bach": [1, 4]})
    text = "sizes has numbers for 'bach', which is no open dimension of the model; it has batch"
    assert str(raised.value) == text
    assert raised.value.hint == "did you mean 'batch'?"
