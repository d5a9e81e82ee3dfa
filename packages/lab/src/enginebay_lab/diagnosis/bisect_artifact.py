"""``bisect``: find the first place where an artifact differs from its model."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from enginebay import VerdictWarning, VerifyOptions, open_artifact, verify
from enginebay.authors import Step, Steps, input_sets
from enginebay.environment import require
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay import Artifact, RewriterSet
    from enginebay.authors import NumpyArray
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
    """Find the first place where an artifact differs from PyTorch: the module and the ONNX node.

    The model is built again for the artifact's engine, with the outputs of its modules as outputs
    of the model. Each module is compared with PyTorch twice: accumulated, through the engine from
    the model's input, and alone, on PyTorch's tensors. The first module that is wrong alone is the
    culprit; later ones only received wrong inputs. If the engine is built from ONNX, the search
    continues in the module's nodes.

    Args:
        artifact: The folder, or the artifact of :func:`enginebay.deploy`.
        model: The model, in any form that :func:`enginebay.deploy` accepts; by default the model
            that the artifact names.
        inputs: The inputs, in any form that :func:`enginebay.verify` accepts. The worst of several
            sets is used; by default, the worst of the recorded samples.
        against: Another artifact of the model; its engine replaces PyTorch as the reference.
        rewriters: Your own rewriters that the artifact was deployed with: an artifact does not
            store them.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        timeout: Time limit of each engine in seconds.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The artifact does not name its model, its model was cut, or it computes in 8
            bits, where every layer has a small error.
        ArtifactError: The artifact is damaged.
        MissingDependencyError: torch or onnx is not installed.

    Example:
        >>> import enginebay as eb
        >>> lab.bisect("work_dirs/net").module  # doctest: +SKIP
        'body.l'
    """
    require("torch", "onnx")
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
            folder=Path(folder),
            options=BuildOptions(rewriters, rtol, atol, timeout),
            steps=Steps(watch),
        )


def check_one_engine(opened: Artifact) -> None:
    """Raise if an artifact cannot be built again as one engine whose layers can be compared.

    Raises:
        UsageError: The artifact has several engines, cannot run here, or computes in 8 bits.
    """
    from enginebay import get_backend

    manifest = opened.manifest
    if manifest.parts:
        raise UsageError(
            f"'{opened.path}' has {len(manifest.parts)} engines; bisecting requires a single one",
            hint="deploy the model without its cuts",
        )
    engine = get_backend(manifest.backend)
    params = engine.params_from(manifest.params)
    engine.check_runs_here(params, "bisecting runs the engine", "bisect it on one of them")
    if precision := engine.calibrated_precision(params):
        raise UsageError(
            f"'{opened.path}' computes in {precision}, where every layer has a small error",
            hint="enginebay sensitivity MODEL ranks the layers",
        )


class _LabelledInputs(NamedTuple):
    """Inputs and the name of their sample; None for the model's own example."""

    inputs: dict[str, NumpyArray] | None
    label: str


def _choose_inputs(
    opened: Artifact, model: object, sets: list[dict[str, NumpyArray]], timeout: float
) -> _LabelledInputs:
    """Choose the set of inputs with the largest difference between the artifact and the model."""
    if len(sets) == 1:
        return _LabelledInputs(sets[0], "example")
    options = VerifyOptions(timeout=timeout, compare={})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VerdictWarning)
        verification = verify(opened, sets, model, options=options)
    if verification.verdict == "crashed":
        return _LabelledInputs(sets[0], "item 0")
    worst = max(verification.outputs, key=lambda output: output.badness)
    return _LabelledInputs(sets[int(worst.sample.removeprefix("item "))], worst.sample)


def _choose_recorded(opened: Artifact) -> _LabelledInputs:
    """Choose the recorded sample with the largest difference in the artifact's verdict."""
    samples = opened.samples()
    if not samples:
        return _LabelledInputs(None, "example")
    verification = opened.manifest.verification
    labels = (verification and verification.basis and verification.basis.labels) or ("example",)
    outputs = verification.outputs if verification else ()
    worst = max(outputs, key=lambda output: output.badness).sample if outputs else labels[0]
    number = labels.index(worst) if worst in labels else 0
    return _LabelledInputs(samples[number].inputs, labels[number])
