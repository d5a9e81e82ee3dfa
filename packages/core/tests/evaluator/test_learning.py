"""The evaluator's operators of classical machine learning return what the specification says."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from enginebay.evaluator.onnx_evaluator import make_evaluator


def evaluate(kind, x, outputs, domain, **attributes):
    dtype = TensorProto.STRING if x.dtype == object else TensorProto.FLOAT
    node = helper.make_node(kind, ["x"], outputs, domain=domain, **attributes)
    given = [helper.make_tensor_value_info("x", dtype, x.shape)]
    found = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([node], "g", given, found)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    return make_evaluator(helper.make_model(graph, opset_imports=imports)).run(None, {"x": x})


@pytest.mark.parametrize("wanted", [(0.5, 0.5), (0.7, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)])
def test_probabilities_of_classes_follow_from_those_of_pairs(wanted):
    count = len(wanted)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    # With A = 0 a pair's probability depends on B alone: here p_i / (p_i + p_j).
    _, scores = evaluate(
        "SVMClassifier",
        np.ones((2, 1), np.float32),
        ["label", "scores"],
        "ai.onnx.ml",
        classlabels_ints=[*range(count)],
        vectors_per_class=[1] * count,
        support_vectors=[1.0] * count,
        coefficients=[1.0] * count * (count - 1),
        rho=[0.0] * len(pairs),
        prob_a=[0.0] * len(pairs),
        prob_b=[float(np.log(wanted[j] / wanted[i])) for i, j in pairs],
        kernel_type="LINEAR",
        kernel_params=[0.0, 0.0, 0.0],
        post_transform="NONE",
    )
    np.testing.assert_allclose(scores, [wanted] * 2, atol=3e-3)


def test_texts_are_split_into_the_tokens_that_a_pattern_finds():
    texts = np.array([["the cat_1 sat!", "a né dog"], ["", "x"]], object)
    options = {"pad_value": "#", "mark": 0, "mincharnum": 2, "tokenexp": "[a-zA-Z0-9_]+"}
    (found,) = evaluate("Tokenizer", texts, ["y"], "com.microsoft", **options)
    assert found.tolist() == [
        [["the", "cat_1", "sat"], ["dog", "#", "#"]],
        [["#", "#", "#"], ["#", "#", "#"]],
    ]
