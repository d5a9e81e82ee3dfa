"""``bisect``: find the first module that an engine computes wrongly, and the wrong node in it."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from enginebay import VerdictWarning, VerifyOptions, open_artifact, verify
from enginebay.authors import Step, Steps
from enginebay.authors.artifacts import input_sets
from enginebay.environment import require
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay import Artifact, RewriterSet
    from enginebay.authors.arrays import NumpyArray
    from enginebay_lab.diagnosis.bisection import Bisection


def bisect(
    artifact: str | Path | Artifact,
    model: object = None,
    inputs: object = None,
    *,
    against: str | Path | Artifact | None = None,
    rewriters: Sequence[RewriterSet | str] = (),
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
) -> Bisection:
    """Find the first module that an engine computes wrongly, and the wrong ONNX node inside it.

    New engines are built with the artifact's settings; they return the outputs of the model's
    modules. Each module is compared with PyTorch twice: accumulated (the engine runs the model from
    its inputs up to the module's end) and alone (the engine runs only the module, on the module's
    inputs in PyTorch). The result is the first module that is wrong when it runs alone: the modules
    after it only received wrong inputs. If the engine is built from ONNX, the search continues
    among the nodes of this module.

    Args:
        artifact: The artifact's folder, or the artifact that :func:`enginebay.deploy` returned.
        model: The model, in any form that :func:`enginebay.deploy` accepts; by default the model
            whose name the artifact records.
        inputs: The inputs, in any form that :func:`enginebay.verify` accepts; by default the
            artifact's recorded samples. Of several sets of inputs, only the one with the largest
            difference is used.
        against: Another artifact of the same model, whose engine is the reference instead of
            PyTorch.
        rewriters: Your own rewriters that the artifact was deployed with: an artifact does not
            store them.
        rtol: Relative tolerance; by default the tolerance for the engine's precision.
        atol: Absolute tolerance; by default the tolerance for the engine's precision.
        timeout: Time limit in seconds for each engine.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The artifact does not record its model, consists of several engines, or
            computes in 8 bits, where every layer has a small error.
        ArtifactError: The artifact is damaged.
        MissingDependencyError: torch or onnx is not installed.

    Example:
        >>> import enginebay as eb
        >>> lab.bisect("work_dirs/net").module  # doctest: +SKIP
        'body.l'
    """
    require("torch", "onnx")  # these modules import them
    from enginebay_lab.diagnosis.bisect_model import bisect_model
    from enginebay_lab.diagnosis.piece_engines import BuildOptions

    opened = open_artifact(artifact)
    other = None if against is None else open_artifact(against)
    check_one_engine(opened)
    if other is not None:
        check_one_engine(other)
    model = opened.named_model() if model is None else model
    sets = input_sets(opened, inputs)
    sample = (
        _choose_recorded(opened) if sets is None else _choose_inputs(opened, model, sets, timeout)
    )
    with TemporaryDirectory(prefix="enginebay-bisect-") as folder:
        return bisect_model(
            opened,
            other,
            model,
            sample.inputs,
            sample.label,
            recorded=sample.outputs,
            folder=Path(folder),
            options=BuildOptions(rewriters, rtol, atol, timeout),
            steps=Steps(watch),
        )


def check_one_engine(opened: Artifact) -> None:
    """Check that an artifact has one engine, can run here, and does not compute in 8 bits.

    Raises:
        UsageError: The artifact has several engines, cannot run here, or computes in 8 bits.
    """
    from enginebay import get_backend

    manifest = opened.manifest
    if manifest.parts:
        raise UsageError(
            f"'{opened.path}' has {len(manifest.parts)} engines; bisect requires a single engine",
            hint="deploy the model without --cuts",
        )
    engine = get_backend(manifest.backend)
    params = engine.params_from(manifest.params)
    hint = "run bisect on a machine that can run the engine"
    engine.check_runs_here(params, "bisecting runs the engine", hint)
    if precision := engine.calibrated_precision(params):
        raise UsageError(
            f"'{opened.path}' cannot be bisected: its engine computes in {precision}, where every "
            "layer has a small error",
            hint="rank the layers by their errors: enginebay sensitivity MODEL",
        )


class _LabelledInputs(NamedTuple):
    """The inputs and the name of a sample. Inputs of None stand for the model's example inputs.

    The outputs are those of the artifact's reference; None if the sample was not recorded.
    """

    inputs: dict[str, NumpyArray] | None
    label: str
    outputs: dict[str, NumpyArray] | None = None


def _choose_inputs(
    opened: Artifact, model: object, sets: list[dict[str, NumpyArray]], timeout: float
) -> _LabelledInputs:
    """Of several sets of inputs, return the one on which the artifact differs most from PyTorch.

    If nothing can be compared, such as after a crash, return the first set. A single set is
    returned without a run.
    """
    if len(sets) == 1:  # nothing to choose from, so the artifact need not run
        return _LabelledInputs(sets[0], "example")
    options = VerifyOptions(timeout=timeout, compare={})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VerdictWarning)  # the search expects a mismatch
        verification = verify(opened, sets, model, options=options)
    if not verification.outputs:  # a crash, to which the first set leads too, or a random model
        return _LabelledInputs(sets[0], "item 0")
    worst = max(verification.outputs, key=lambda output: output.badness)
    return _LabelledInputs(sets[int(worst.sample.removeprefix("item "))], worst.sample)


def _choose_recorded(opened: Artifact) -> _LabelledInputs:
    """Return the recorded sample whose outputs differed most when the artifact was verified.

    If the artifact has no recorded sample, the inputs are None.
    """
    samples = opened.samples()
    if not samples:
        return _LabelledInputs(None, "example")
    verification = opened.manifest.verification
    labels = (verification and verification.basis and verification.basis.labels) or ("example",)
    outputs = verification.outputs if verification else ()
    worst = max(outputs, key=lambda output: output.badness).sample if outputs else labels[0]
    index = labels.index(worst) if worst in labels else 0
    return _LabelledInputs(samples[index].inputs, labels[index], samples[index].outputs)
