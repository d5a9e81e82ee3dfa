"""The reference of an ONNX file: onnx's evaluator, or another engine beside it or instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import EnginebayError, ModelSourceError, first_line
from enginebay.evaluator import EVALUATOR_TIMEOUT, OUT_OF_TIME, evaluate_some
from enginebay.ir import summarise_onnx
from enginebay.tensors import Sample, equal_arrays
from enginebay.verification import ToleranceOptions, compare_sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.backend import BackendHooks
    from enginebay.tensors import NumpyArray
    from enginebay.verification import Evidence, RecordedReference

    Arrays = dict[str, NumpyArray]
    Inputs = Mapping[str, NumpyArray]

#: CPU seconds for all probes in onnx's evaluator. If they need more, another engine may run all but
#: the first. It takes some seconds to convert a file and to load it.
_WITNESS_SECONDS = 5.0

#: The part of the tolerance within which an engine must agree with the evaluator to replace it.
_WITNESS_TOLERANCE = 0.5


class OnnxReference:
    """Runs an ONNX file in onnx's reference evaluator or, if that fails, in a second engine.

    If the evaluator is slow, it runs the required samples and the first probe. A second engine that
    agrees on these runs the other probes.

    Args:
        path: The ONNX file.
        backend: The backend to verify, which is not used as a reference.

    Attributes:
        description: Name of the reference in the verdict.
        inexact: Why a second engine was used for all samples; empty if it was not.
        witnessed: Number of a sample → the second engine that ran it instead of the evaluator.
    """

    def __init__(self, path: Path, backend: str) -> None:
        self._path = path
        self._backend = backend
        self.description = "onnx's reference evaluator"
        self.inexact = ""
        self.witnessed: dict[int, str] = {}

    def compute_outputs(self, samples: Sequence[Inputs]) -> list[Arrays]:
        """Return the outputs of the evaluator, or of the first engine that can run the file.

        Raises:
            ModelSourceError: Neither the evaluator nor another engine can run the file.
        """
        found = self.compute_some(samples, len(samples))
        return [outputs for outputs in found if not isinstance(outputs, str)]

    def compute_some(self, samples: Sequence[Inputs], required: int) -> list[Arrays | str]:
        """Return the outputs of each sample; after the required ones, a reason if there are none.

        Raises:
            ModelSourceError: Neither the evaluator nor another engine can run the file.
        """
        from enginebay.backend import load_hooks
        from enginebay.plugins import installed_backends

        others = [name for name in installed_backends() if name != self._backend]
        try:
            limits: Any = {"budget": _WITNESS_SECONDS, "all_or_first": True} if others else {}
            found = evaluate_some(self._path, samples, required, **limits)
        except EnginebayError as err:
            failure = str(err)
        else:
            if others and OUT_OF_TIME in found and not self._ask_witness(others, samples, found):
                self._evaluate_late(samples, found)
            return found
        for name in others:
            try:
                outputs = _run_engine(load_hooks(name), self._path, samples, required)
            except EnginebayError:
                continue
            self.description = f"{name}, a second engine"
            self.inexact = failure
            return outputs
        tried = f"; nor can {', '.join(others)}" if others else ""
        raise ModelSourceError(f"no reference: {failure}{tried}")

    def _ask_witness(
        self, names: Sequence[str], samples: Sequence[Inputs], found: list[Arrays | str]
    ) -> bool:
        """Fill in what the evaluator had no time for by an engine that agrees on all the rest."""
        from enginebay.backend import load_hooks

        judged = {n: outputs for n, outputs in enumerate(found) if not isinstance(outputs, str)}
        first, *rest = judged.values()
        if all(equal_arrays(first, outputs) for outputs in rest):
            return False  # an engine that ignores the inputs would agree
        late = [n for n, outputs in enumerate(found) if outputs == OUT_OF_TIME]
        options = ToleranceOptions(summarise_onnx(self._path).precision, factor=_WITNESS_TOLERANCE)
        for name in names:
            try:
                hooks = load_hooks(name)
                if hooks.info.irs[0] != "onnx":
                    continue  # it would take a long way from ONNX
                given = [samples[n] for n in (*judged, *late)]
                outputs = dict(
                    zip((*judged, *late), run_file(hooks, self._path, given), strict=True)
                )
            except EnginebayError:
                continue
            comparisons = (compare_sample(judged[n], outputs[n], options) for n in judged)
            if all(output.passed for each in comparisons for output in each.outputs):
                for n in late:
                    found[n] = outputs[n]
                self.witnessed = dict.fromkeys(late, name)
                self.description = f"{self.description}, and {name} for some probe inputs"
                return True
        return False

    def _evaluate_late(self, samples: Sequence[Inputs], found: list[Arrays | str]) -> None:
        """Fill in what the evaluator had no time for, as far as its whole time reaches."""
        late = [n for n, outputs in enumerate(found) if outputs == OUT_OF_TIME]
        try:
            outputs = evaluate_some(self._path, [samples[n] for n in late], 0)
        except EnginebayError:
            return
        for n, each in zip(late, outputs, strict=True):
            found[n] = each


def _run_engine(
    backend: BackendHooks, path: Path, samples: Sequence[Inputs], required: int
) -> list[Arrays | str]:
    """Run an engine on all samples, or else on the required ones."""
    try:
        return [*run_file(backend, path, samples)]
    except EnginebayError as err:
        outputs = run_file(backend, path, samples[:required])
        return [*outputs, *[first_line(err)] * (len(samples) - required)]


def run_file(backend: BackendHooks, path: Path, samples: Sequence[Inputs]) -> list[Arrays]:
    """Convert an ONNX file for an engine, and run it in a child process.

    Raises:
        EnginebayError: The file cannot be converted, loaded or run, or the engine crashed.
    """
    from enginebay.artifact import ConvertedEngine
    from enginebay.hooks import ConvertRequest
    from enginebay.ir import read_ir
    from enginebay.verification import run_trial

    ir = read_ir(path)
    given = [Sample(dict(inputs), {}) for inputs in samples]
    with TemporaryDirectory(prefix="enginebay-reference-") as folder:
        directory, params = Path(folder), backend.Params()
        files = backend.convert(ConvertRequest(ir=ir, params=params, work_dir=directory))
        request = ConvertedEngine(backend, params, ir, files).load_request(directory)
        return run_trial(request, given, timeout=EVALUATOR_TIMEOUT)[0]


def reevaluate_witnessed(path: Path, recorded: RecordedReference, evidence: Evidence) -> Evidence:
    """Run the evaluator on the samples where the engine differs from another engine's outputs.

    Either engine may be wrong there. The samples' outputs in ``recorded`` are replaced.
    """
    witnessed = dict(evidence.basis.witnessed)
    samples = dict(zip(recorded.basis.labels, recorded.samples, strict=True))
    worst = [output.sample for output in evidence.worst_outputs if not output.passed]
    late = [label for label in dict.fromkeys((*worst, *evidence.failed)) if label in witnessed]
    try:
        found = evaluate_some(path, [samples[label].inputs for label in late], 0) if late else []
    except EnginebayError:
        found = []
    for label, outputs in zip(late, found, strict=False):
        if not isinstance(outputs, str):
            samples[label].outputs.update(outputs)
            del witnessed[label]
    if witnessed == evidence.basis.witnessed:
        return evidence
    basis = msgspec.structs.replace(evidence.basis, witnessed=witnessed)
    return replace(evidence, basis=basis)
