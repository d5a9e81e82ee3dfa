"""The evaluator agrees with ONNX Runtime on each operator, at each version of its definition.

Two independent implementations of the definition seldom share a mistake.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator

from enginebay.evaluator.onnx_evaluator import make_evaluator, replaced_operators

from .cases import CASES, Case
from .models import build, differences, engine_outputs, versions

#: What the evaluator refuses, so that another reference judges the file.
REFUSED = {
    "GRU": "onnx ignores",
    "GlobalLpPool": "No registered implementation",
    "GridSample": "onnx limits a point",
    "LSTM": "onnx ignores",
    "MaxRoiPool": "No registered implementation",
    "RNN": "onnx ignores",
    "Resize": "tf_half_pixel_for_nn",
    "Scatter": "No registered implementation",
}

#: Our operators that onnx has right: its own are slow, or take gigabytes.
SLOW = {"AveragePool", "Conv", "Erf", "ScatterElements", "Sigmoid"}


@cache
def _runs(operator: str) -> list[tuple[Case, int, Any, dict[str, Any], list[Any]]]:
    """Return the cases of an operator that ONNX Runtime can run, by opset, with its outputs."""
    return [
        (case, opset, *built, wanted)
        for case in CASES
        if case.operator == operator
        for opset in versions(operator)
        if (built := build(case, opset)) and (wanted := engine_outputs(*built)) is not None
    ]


def _wrong(operator: str, evaluator: Any) -> list[str]:
    wrong = []
    for case, opset, model, inputs, wanted in _runs(operator):
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = evaluator(model).run(None, inputs)
        except Exception as err:
            wrong.append(f"opset {opset}, {case.options}: {err}")
        else:
            wrong += [
                f"opset {opset}, {case.options}: {text}" for text in differences(found, wanted)
            ]
    return wrong


OPERATORS = sorted({case.operator for case in CASES})


@pytest.mark.parametrize("operator", OPERATORS)
def test_evaluator_agrees_with_onnx_runtime(operator: str) -> None:
    reason = REFUSED.get(operator)
    wrong = [text for text in _wrong(operator, make_evaluator) if not (reason and reason in text)]
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.slow
def test_each_replaced_operator_is_wrong_in_onnx() -> None:
    replaced = {each.__name__ for each in replaced_operators()}
    wrong = {operator for operator in OPERATORS if _wrong(operator, ReferenceEvaluator)}
    beside = {"Loop", "Scan"}  # the tests below
    assert replaced - beside - SLOW <= wrong
    assert wrong - replaced <= set(REFUSED)


HEAD = '<ir_version: 8, opset_import: ["" : {opset}]> graph'
LOOPS = {
    "scan outputs are stacked": """ (float[2, 3] x, int64 n)
        => (float[2, 3] y, float[t, 2, 3] all) {
        keep = Constant<value = bool {1}>()
        y, all = Loop(n, keep, x) <body = body (int64 i, bool go, float[2, 3] a)
            => (bool more, float[2, 3] b, float[2, 3] out) {
            more = Identity(go)  b = Add(a, x)  out = Mul(a, b) }> }""",
    "scalars too": """ (float[2, 3] x, int64 n) => (float[2, 3] y, float[t] all) {
        keep = Constant<value = bool {1}>()
        y, all = Loop(n, keep, x) <body = body (int64 i, bool go, float[2, 3] a)
            => (bool more, float[2, 3] b, float out) {
            more = Identity(go)  b = Add(a, x)  out = ReduceSum<keepdims = 0>(b) }> }""",
    "a condition ends it": """ (float[2, 3] x, int64 n) => (float[2, 3] y) {
        keep = Constant<value = bool {1}>()
        y = Loop(n, keep, x) <body = body (int64 i, bool go, float[2, 3] a)
            => (bool more, float[2, 3] b) {
            two = Constant<value = int64 {2}>()  more = Less(i, two)  b = Add(a, x) }> }""",
}


@pytest.mark.parametrize("turns", [0, 1, 5])
@pytest.mark.parametrize("opset", [11, 13, 16, 21])
@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
def test_loop_agrees_with_onnx_runtime(text: str, opset: int, turns: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    _compare(HEAD.replace("{opset}", str(opset)) + text, {"x": x, "n": np.array(turns)})


@pytest.mark.parametrize("opset", [9, 11, 16, 21])
@pytest.mark.parametrize(
    "attributes",
    [
        "",
        ", scan_input_axes = [1]",
        ", scan_input_directions = [1]",
        ", scan_input_axes = [1], scan_output_axes = [1]",
        ", scan_output_directions = [1]",
        ", scan_input_axes = [-1], scan_output_axes = [-1], scan_output_directions = [1]",
    ],
)
def test_scan_agrees_with_onnx_runtime(attributes: str, opset: int) -> None:
    text = f""" (float[3] x, float[3, 3] rows) => (float[3] y, float[a, b] all) {{
        y, all = Scan(x, rows) <num_scan_inputs = 1{attributes},
            body = body (float[3] a, float[3] r) => (float[3] b, float[3] out) {{
            b = Add(a, r)  out = Mul(b, x) }}> }}"""
    rng = np.random.default_rng(0)
    given = {name: rng.random(shape, np.float32) for name, shape in (("x", 3), ("rows", (3, 3)))}
    _compare(HEAD.replace("{opset}", str(opset)) + text, given)


def test_local_functions_have_the_same_operators() -> None:
    text = """<ir_version: 8, opset_import: ["" : 11, "mine" : 1]> graph (float[2, 3, 4] x)
        => (float[2, 3, 4] y) { y = mine.Odds(x) }
        <domain: "mine", opset_import: ["" : 11]> Odds (x) => (y) { y = Softmax(x) }"""
    _compare(text, {"x": np.random.default_rng(0).random((2, 3, 4), np.float32)})


def _compare(text: str, inputs: dict[str, Any]) -> None:
    model = parse_model(text)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = ort.InferenceSession(model.SerializeToString(), options).run(None, inputs)
    assert not list(differences(make_evaluator(model).run(None, inputs), wanted))
