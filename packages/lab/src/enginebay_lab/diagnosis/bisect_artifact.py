"""``bisect``: the first place where an artifact leaves its model."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay import open_artifact
from enginebay.artifact import SAMPLES_FILE, load_request
from enginebay.environment import require
from enginebay.errors import UsageError
from enginebay.inference import InputCheck
from enginebay.operations import Step, Steps
from enginebay.operations.verify_artifact import input_sets
from enginebay.rewriting import check_sets
from enginebay.tensors import Sample, save_samples
from enginebay.verdict import EXAMPLE, ITEM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay import Artifact, RewriterSet
    from enginebay.authors import NumpyArray
    from enginebay_lab.diagnosis.record import Bisection


def bisect(
    artifact: str | Path | Artifact,
    model: Any = None,
    inputs: Any = None,
    *,
    against: str | Path | Artifact | None = None,
    rewriters: Sequence[RewriterSet] = (),
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

    check_sets(rewriters)
    opened = open_artifact(artifact)
    other = None if against is None else open_artifact(against)
    for one in (opened, other):
        if one is not None:
            _check(one)
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


def _check(opened: Artifact) -> None:
    """Refuse what cannot be built again in one piece and compared place by place."""
    from enginebay import get_backend
    from enginebay.backend import check_runs_here

    manifest = opened.manifest
    if manifest.parts:
        raise UsageError(
            f"'{opened.path}' has {len(manifest.parts)} engines, and bisecting builds one",
            hint="deploy the model without its cuts",
        )
    engine = get_backend(manifest.backend)
    params = engine.params_from(manifest.params)
    check_runs_here(engine, params, "bisecting runs the engine", "bisect it on one of them")
    precision = engine.allowed_precision(params)
    if precision in engine.info.calibrated:
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
    check = InputCheck(opened.inputs)
    for inputs in sets:
        check.check_names(inputs)
        check.check(inputs)
    if len(sets) == 1:
        return _Sample(sets[0], EXAMPLE)
    from enginebay.models import find_model
    from enginebay.verification import compare, reference_for, reference_model, run_trial

    request = load_request(opened)
    names = [[spec.name for spec in specs] for specs in (opened.inputs, opened.outputs)]
    bound = reference_model(find_model(model), names[0], sets[0], names[1])
    expected = reference_for(bound, opened.backend).outputs(sets)
    with TemporaryDirectory(prefix="enginebay-bisect-") as folder:
        path = Path(folder) / SAMPLES_FILE
        save_samples(path, [Sample(inputs, {}) for inputs in sets])
        found, receipt = run_trial(request, path, timeout=timeout)
    badness = [
        max(output.badness for output in compare(*pair, precision=receipt.precision))
        for pair in zip(expected, found, strict=True)
    ]
    worst = badness.index(max(badness))
    return _Sample(sets[worst], f"{ITEM}{worst}")


def _worst_recorded(opened: Artifact) -> _Sample:
    """The recorded sample on which the verdict was worst."""
    samples = opened.samples()
    if not samples:
        return _Sample(None, EXAMPLE)
    verification = opened.manifest.verification
    labels = (verification and verification.basis and verification.basis.labels) or (EXAMPLE,)
    outputs = verification.outputs if verification else ()
    worst = max(outputs, key=lambda output: output.badness).sample if outputs else labels[0]
    number = labels.index(worst) if worst in labels else 0
    return _Sample(samples[number].inputs, labels[number])
