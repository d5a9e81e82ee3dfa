"""Runs of an ONNX file in double precision, and with random rounding errors."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.tensors import Sample, load_samples, save_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        seed: The random seed; None for no errors.
        is_double: True for a run in double precision, with errors in inputs and weights only.
    """

    seed: int | None
    is_double: bool = False


def rerun_file(
    path: Path, inputs: Arrays, unit: float, runs: Sequence[Perturbation], timeout: float
) -> list[Arrays]:
    """Run an ONNX file in onnx's evaluator, in a child process, once for each perturbation.

    Args:
        path: The file.
        inputs: The inputs by name.
        unit: The standard deviation of the relative errors.
        runs: What each run changes.
        timeout: Seconds that all runs may take together.

    Raises:
        EnginebayError: The evaluator fails, or does not end in time.
    """
    from enginebay.isolation import call

    with TemporaryDirectory(prefix="enginebay-reference-") as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        save_samples(given, [Sample(inputs, {})])
        arguments = path, given, found, unit, list(runs)
        function = "enginebay.reference.perturbed_file:run_perturbed"
        call(function, *arguments, timeout=timeout, result_type=type(None))
        return [sample.outputs for sample in load_samples(found)]


def run_perturbed(
    path: Path, given: Path, found: Path, unit: float, runs: list[Perturbation]
) -> None:
    """Run a file on saved inputs, and save the outputs of all runs; called in a child process."""
    from enginebay.reference.onnx_evaluator import make_evaluator, widen_evaluator

    (sample,) = load_samples(given)
    results = []
    for run in runs:
        evaluator = make_evaluator(str(path))
        random = None if run.seed is None else np.random.default_rng(run.seed)

        def add_errors(value: Any, random: Any = random) -> Any:
            # Whole numbers are exact in any order of summation.
            if random is None or value.dtype.kind != "f" or (value == np.round(value)).all():
                return value
            return value * (1 + unit * random.standard_normal(value.shape, np.float32))

        inputs = {name: add_errors(array) for name, array in sample.inputs.items()}
        if run.is_double:
            widen = widen_evaluator(evaluator, np.float64)
            inputs = {name: add_errors(widen(array)) for name, array in sample.inputs.items()}
            weights = evaluator.rt_inits_.items()
            evaluator.rt_inits_ = {name: add_errors(array) for name, array in weights}
        else:
            for node in evaluator.rt_nodes_:
                if node.op_type in _SUMS:
                    node.run = _perturb(node.run, add_errors)
        outputs = dict(zip(evaluator.output_names, evaluator.run(None, inputs), strict=True))
        results.append(Sample({}, outputs))
    save_samples(found, results)


def _perturb(run: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    def perturbed(*values: Any, **options: Any) -> Any:
        given = (None if each is None else change(each) for each in values)
        return tuple(change(each) for each in run(*given, **options))

    return perturbed
