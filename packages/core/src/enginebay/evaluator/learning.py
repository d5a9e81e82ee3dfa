"""Operators of classical machine learning for onnx's evaluator: false or missing in onnx 1.23.2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx.helper import get_attribute_value
from onnx.reference.op_run import OpRun
from onnx.reference.ops.aionnxml.op_svm_classifier import SVMClassifier as OnnxSVMClassifier

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray

#: A probability of one class against another lies within this range.
_LEAST = 1e-7


class SVMClassifier(OnnxSVMClassifier):  # type: ignore[misc]  # onnx has no types
    """onnx's is false for three classes and more: it adds products up that stand alone."""

    def _probabilities(self, scores: NumpyArray, classes: int) -> NumpyArray:
        atts = self._svm.atts
        values = 1 / (1 + np.exp(scores * atts.prob_a + atts.prob_b))
        pairs = np.zeros((classes, classes), scores.dtype)
        pairs[np.triu_indices(classes, 1)] = np.clip(values, _LEAST, 1 - _LEAST)
        lower = np.tril_indices(classes, -1)
        pairs[lower] = 1 - pairs.T[lower]
        return _couple(pairs)


def _couple(pairs: NumpyArray) -> NumpyArray:
    """Return the probabilities of classes from those of each class against each other.

    By the second method of Wu, Lin and Weng, "Probability Estimates for Multi-class Classification
    by Pairwise Coupling", with the limits of libsvm.
    """
    count = len(pairs)
    # Twice the objective is p'Qp, and p sums up to 1.
    quadratic = -pairs.T * pairs
    np.fill_diagonal(quadratic, (pairs**2).sum(0))
    p = np.full(count, 1 / count, pairs.dtype)
    for _ in range(max(100, count)):
        gradient = quadratic @ p
        value = p @ gradient
        if np.abs(gradient - value).max() < 0.005 / count:
            break
        for t in range(count):
            step = (value - gradient[t]) / quadratic[t, t]
            p[t] += step
            value = (value + step * (step * quadratic[t, t] + 2 * gradient[t])) / (1 + step) ** 2
            gradient = (gradient + step * quadratic[t]) / (1 + step)
            p /= 1 + step
    return p


class Tokenizer(OpRun):  # type: ignore[misc]  # onnx has no types
    """ONNX Runtime's operator, which scikit-learn's vectorizers of texts are written with."""

    op_domain = "com.microsoft"

    def _run(self, texts: NumpyArray, **_: Any) -> tuple[NumpyArray]:
        given = {each.name: get_attribute_value(each) for each in self.onnx_node.attribute}
        least, padding = given.get("mincharnum", 1), given["pad_value"].decode()
        if "tokenexp" not in given or given.get("mark"):
            raise NotImplementedError("a Tokenizer with separators or marks")
        # As in RE2, classes of characters contain only those of ASCII.
        pattern = re.compile(given["tokenexp"].decode(), re.ASCII)
        found = [[w for w in pattern.findall(text) if len(w) >= least] for text in texts.flat]
        width = max(map(len, found), default=0)
        padded = [[*words, *[padding] * (width - len(words))] for words in found]
        return (np.array(padded, object).reshape(*texts.shape, width),)
