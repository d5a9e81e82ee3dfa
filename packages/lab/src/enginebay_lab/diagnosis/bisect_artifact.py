"""``bisect``: the first place where an artifact leaves its model."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

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
    model: Any = None,
    inputs: Any = None,
    *,
    against: str | Path | Artifact | None = None,
    rewriters: Sequence[RewriterSet | str] = (),
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
) -> Bisection:
    """Find the first place where an artifact leaves PyTorch: the module, and the ONNX node.

    The model is built again for the artifact's engine so that it returns what its modules return.
    Each is held against PyTorch twice: through the engine from the input, and alone, fed with
    PyTorch's tensors. The first that is wrong alone is the culprit; the others are its victims.
    Where the engine takes ONNX, the search goes on among the module's nodes.

    Args:
        artifact: The folder, or what :func:`enginebay.deploy` returned.
        model: The model, as :func:`enginebay.deploy` takes it; by default the one that the
            artifact names.
        inputs: The inputs as :func:`enginebay.verify` takes them; of several sets, and by default
            of the recorded samples, the worst is taken.
        against: Another artifact of the model, to compare with its engine instead of PyTorch.
        rewriters: Those of your own that the artifact was deployed with: it does not keep them.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        timeout: Seconds that each engine may take.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The artifact does not say which model it is, its model was cut, or it computes
            in 8 bits, where every layer is wrong by a little.
        ArtifactError: The artifact is damaged.
        MissingDependencyError: torch or onnx is not installed.

    Example:
        >>> import enginebay as eb
        >>> lab.bisect("work_dirs/net").module  # doctest: +SKIP
        'body.l'
    """
    require("torch", "onnx")
    from enginebay_lab.diagnosis.bisect_model import bisect_model
    from enginebay_lab.diagnosis.piece_engines import Options

    opened = open_artifact(artifact)
    other = None if against is None else open_artifact(against)
    for one in (opened, other):
        if one is not None:
            check_one_engine(one)
    model = opened.named_model() if model is None else model
    sets = input_sets(opened, inputs)
    sample = _worst_recorded(opened) if sets is None else _worst(opened, model, sets, timeout)
    with TemporaryDirectory(prefix="enginebay-bisect-") as folder:
        return bisect_model(
            opened,
            other,
            model,
            sample.inputs,
            sample.label,
            folder=Path(folder),
            options=Options(rewriters, rtol, atol, timeout),
            steps=Steps(watch),
        )


def check_one_engine(opened: Artifact) -> None:
    """Refuse what cannot be built again as one engine, and compared place by place.

    Raises:
        UsageError: It has several engines, cannot run here, or computes in 8 bits.
    """
    from enginebay import get_backend

    manifest = opened.manifest
    if manifest.parts:
        raise UsageError(
            f"'{opened.path}' has {len(manifest.parts)} engines, and bisecting builds one",
            hint="deploy the model without its cuts",
        )
    engine = get_backend(manifest.backend)
    params = engine.params_from(manifest.params)
    engine.check_runs_here(params, "bisecting runs the engine", "bisect it on one of them")
    if precision := engine.calibrated_precision(params):
        raise UsageError(
            f"'{opened.path}' computes in {precision}, where every layer is off by a little",
            hint="enginebay sensitivity MODEL ranks them",
        )


class _Sample(NamedTuple):
    """Inputs, and what they are called."""

    inputs: dict[str, NumpyArray] | None
    label: str


def _worst(
    opened: Artifact, model: Any, sets: list[dict[str, NumpyArray]], timeout: float
) -> _Sample:
    """The set of inputs at which the artifact is furthest from the model."""
    if len(sets) == 1:
        return _Sample(sets[0], "example")
    options = VerifyOptions(timeout=timeout, compare={})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VerdictWarning)
        found = verify(opened, sets, model, options=options)
    if found.verdict == "crashed":
        return _Sample(sets[0], "item 0")
    worst = max(found.outputs, key=lambda output: output.badness)
    return _Sample(sets[int(worst.sample.removeprefix("item "))], worst.sample)


def _worst_recorded(opened: Artifact) -> _Sample:
    """The recorded sample on which the verdict was worst."""
    samples = opened.samples()
    if not samples:
        return _Sample(None, "example")
    verification = opened.manifest.verification
    labels = (verification and verification.basis and verification.basis.labels) or ("example",)
    outputs = verification.outputs if verification else ()
    worst = max(outputs, key=lambda output: output.badness).sample if outputs else labels[0]
    number = labels.index(worst) if worst in labels else 0
    return _Sample(samples[number].inputs, labels[number])
