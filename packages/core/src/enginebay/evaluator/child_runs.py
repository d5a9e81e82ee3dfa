"""Runs of onnx's evaluator in a child process, whose time and memory are limited."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay.errors import ModelError, first_line
from enginebay.evaluator.perturbation import Perturbation  # noqa: TC001  # the child decodes it by annotation
from enginebay.isolation import call
from enginebay.tensors import Sample, load_samples, save_samples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]
    Inputs = Mapping[str, NumpyArray]

#: Seconds for onnx's evaluator, which is written for clarity.
EVALUATOR_TIMEOUT = 300.0

#: Once the samples that are not required have taken so many CPU seconds, the rest is left out.
_BUDGET = 20.0

#: Why such a sample has no outputs.
OUT_OF_TIME = "onnx's evaluator has taken too long for the probe inputs before"


def evaluator_outputs(
    path: Path, samples: Sequence[Inputs], *, timeout: float = EVALUATOR_TIMEOUT
) -> list[Arrays]:
    """Run an ONNX file with onnx's reference evaluator, in a child process.

    Args:
        path: The file.
        samples: For each run, the inputs by name.
        timeout: Seconds that all runs may take together.

    Raises:
        EnginebayError: The evaluator cannot run the file, does not end in time, or crashes.
    """
    return _take_outputs(_run(path, samples, [None] * len(samples), len(samples), timeout=timeout))


def evaluate_some(
    path: Path,
    samples: Sequence[Inputs],
    required: int,
    *,
    budget: float = _BUDGET,
    all_or_first: bool = False,
) -> list[Arrays | str]:
    """Return the outputs of each sample; after the required ones, a reason if there are none.

    Args:
        path: The file.
        samples: For each run, the inputs by name.
        required: The number of samples that must have outputs.
        budget: Once the others have taken so many CPU seconds, the reason is ``OUT_OF_TIME``. The
            first of them is run in any case.
        all_or_first: True to run the first of them only, if not all of them fit into the budget.

    Raises:
        EnginebayError: The evaluator cannot run the required samples, does not end in time, or
            crashes.
    """
    runs = [None] * len(samples)
    return _run(path, samples, runs, required, budget=budget, all_or_first=all_or_first)


def rerun_file(path: Path, inputs: Inputs, runs: Sequence[Perturbation]) -> list[Arrays]:
    """Run an ONNX file on the same inputs, once for each perturbation, as far as time reaches.

    The first is run in any case.

    Raises:
        EnginebayError: The evaluator fails, or does not end in time.
    """
    found = _run(path, [inputs] * len(runs), runs, 0)
    return _take_outputs(found)


def _take_outputs(found: Sequence[Arrays | str]) -> list[Arrays]:
    return [outputs for outputs in found if not isinstance(outputs, str)]


def _run(
    path: Path,
    samples: Sequence[Inputs],
    perturbations: Sequence[Perturbation | None],
    required: int,
    *,
    budget: float = _BUDGET,
    all_or_first: bool = False,
    timeout: float = EVALUATOR_TIMEOUT,
) -> list[Arrays | str]:
    with TemporaryDirectory(prefix="enginebay-reference-") as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        save_samples(given, [Sample(dict(inputs), {}) for inputs in samples])
        function = "enginebay.evaluator.child_runs:run_evaluator"
        arguments = path, given, found, list(perturbations), required, budget, all_or_first
        reasons = call(function, *arguments, timeout=timeout, result_type=list[str])
        outputs = iter(load_samples(found))
        return [reason or next(outputs).outputs for reason in reasons]


def run_evaluator(
    path: Path,
    input_path: Path,
    output_path: Path,
    perturbations: list[Perturbation | None],
    required: int,
    budget: float,
    all_or_first: bool,
) -> list[str]:
    """Run an ONNX file on saved inputs, and save the outputs; called in a child process.

    Returns:
        For each sample, why it has no outputs, or "" if they are saved. The required ones have.
    """
    from enginebay.evaluator.onnx_evaluator import read_evaluator
    from enginebay.evaluator.perturbation import run_perturbed

    _limit_memory()
    read = cache(read_evaluator)  # once, and not at all for perturbed runs
    results, reasons, spent = [], [], 0.0
    pairs = zip(load_samples(input_path), perturbations, strict=True)
    for number, (sample, perturbation) in enumerate(pairs):
        reason, start = "", time.process_time()
        try:
            if number > required and spent >= budget:
                reason = OUT_OF_TIME
            elif perturbation is None:
                results.append(Sample({}, read(path)(sample.inputs)))
            else:
                results.append(Sample({}, run_perturbed(path, sample.inputs, perturbation)))
        except ModelError as err:
            if number < required:
                raise
            reason = first_line(err)
        reasons.append(reason)
        if number >= required:
            # Not wall time: a busy machine must not decide what is compared.
            spent += time.process_time() - start
            if number == required and all_or_first and spent * len(perturbations[number:]) > budget:
                budget = 0.0
    save_samples(output_path, results)
    return reasons


def _limit_memory() -> None:
    """Let this process fail before it fills the memory of the machine."""
    with suppress(ImportError, AttributeError, ValueError, OSError):  # not on Windows
        import resource

        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
