"""Runs of an ONNX file in double precision, and with random rounding errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.evaluator.onnx_evaluator import (
    load_for_evaluator,
    make_evaluator,
    widen_evaluator,
    widen_half,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]

#: Operators that add, subtract or divide, with numbers that may cancel.
_SUMS = frozenset(
    (
        *("Add", "Sub", "Sum", "Div", "Mean", "MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose"),
        *("ReduceMean", "ReduceSum", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "CumSum"),
        *("AveragePool", "GlobalAveragePool", "Softmax", "LogSoftmax", "LRN", "GRU", "LSTM", "RNN"),
        *("BatchNormalization", "InstanceNormalization", "LayerNormalization", "STFT", "DFT"),
    )
)


class Perturbation(NamedTuple):
    """What a run changes.

    Attributes:
        unit: The standard deviation of the relative errors.
        seed: The random seed; None for no errors.
        is_double: True for a run in double precision, with errors in inputs and weights only.
    """

    unit: float
    seed: int | None
    is_double: bool = False


def run_perturbed(path: Path, inputs: Mapping[str, NumpyArray], change: Perturbation) -> Arrays:
    """Run an ONNX file in onnx's evaluator with random errors, and return the outputs by name."""
    evaluator = make_evaluator(load_for_evaluator(path))
    random = None if change.seed is None else np.random.default_rng(change.seed)

    def add_errors(value: Any) -> Any:
        if random is None or value.dtype.kind != "f" or _is_whole(value):
            return value
        errors = random.standard_normal(value.shape, np.float32)
        errors *= change.unit
        errors += 1
        return np.asarray(value * errors, value.dtype)

    widen = widen_evaluator(evaluator, np.float64) if change.is_double else widen_half(evaluator)
    given = {name: add_errors(widen(array)) for name, array in inputs.items()}
    if change.is_double:
        weights = evaluator.rt_inits_.items()
        evaluator.rt_inits_ = {name: add_errors(array) for name, array in weights}
    else:
        for node in evaluator.rt_nodes_:
            if node.op_type in _SUMS:
                node.run = _perturb(node.run, add_errors)
    return dict(zip(evaluator.output_names, evaluator.run(None, given), strict=True))


def _is_whole(value: NumpyArray) -> bool:
    """Return True for whole numbers, which are exact in any order of summation."""
    first = value.reshape(-1)[:64]  # which decide for nearly all arrays
    return bool((first == np.round(first)).all() and (value == np.round(value)).all())


def _perturb(run: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    def perturbed(*values: Any, **options: Any) -> Any:
        given = (None if each is None else change(each) for each in values)
        return tuple(change(each) for each in run(*given, **options))

    return perturbed
