"""``pieces``: compare every module of an artifact's model alone, in PyTorch and in the engine."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay import open_artifact
from enginebay.authors import Steps, find_model, input_sets, unchanged
from enginebay.environment import require
from enginebay.errors import UsageError
from enginebay_lab.diagnosis.bisect_artifact import check_one_engine
from enginebay_lab.diagnosis.piece_rows import Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay import Artifact, RewriterSet
    from enginebay.authors import NumpyArray, Step


def pieces(
    artifact: str | Path | Artifact,
    model: object = None,
    inputs: object = None,
    *,
    rewriters: Sequence[RewriterSet | str] = (),
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
) -> Pieces:
    """Compare each module of a model alone, in PyTorch and in the artifact's engine.

    The model is cut at its modules: a piece is a call of a module without the calls inside it,
    which are pieces themselves. Each piece gets the tensors that PyTorch has there, and random
    values within their ranges, so that no error is hidden by later modules: a dead branch, a
    saturated activation, a product with 0.

    Args:
        artifact: The folder, or the artifact of :func:`enginebay.deploy`.
        model: The model, in any form that :func:`enginebay.deploy` accepts; by default the model
            that the artifact names.
        inputs: One set of inputs by name; by default the artifact's example.
        rewriters: Your own rewriters that the artifact was deployed with: an artifact does not
            store them.
        rtol: Replaces the relative tolerance of a verdict.
        atol: Replaces the absolute tolerance of a verdict.
        timeout: Time limit of each engine in seconds.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The artifact does not name its model, its model was cut or has no modules (an
            ONNX file), or it computes in 8 bits, where every layer has a small error.
        ArtifactError: The artifact is damaged.
        MissingDependencyError: torch or onnx is not installed.

    Example:
        >>> import enginebay as eb
        >>> lab.pieces("work_dirs/net").summary  # doctest: +SKIP
        '412 of 412 pieces agree alone'
    """
    require("torch", "onnx")
    from enginebay_lab.diagnosis.bisect_model import bind_root
    from enginebay_lab.diagnosis.piece_engines import BuildOptions, PieceEngines
    from enginebay_lab.diagnosis.piece_table import PieceTable

    opened = open_artifact(artifact)
    check_one_engine(opened)
    sample = _select_inputs(opened, inputs)
    source = find_model(opened.named_model() if model is None else model)
    if source.model is None:
        raise UsageError(
            f"'{source.description}' has no modules to compare",
            hint="enginebay bisect ARTIFACT without --pieces searches its nodes",
        )
    steps = Steps(watch)
    options = BuildOptions(rewriters, rtol, atol, timeout)
    with TemporaryDirectory(prefix="enginebay-pieces-") as folder, unchanged(source):
        engines = PieceEngines(opened, None, options, Path(folder))
        with steps("reference"):
            _, root = bind_root(source, opened, sample)
            table = PieceTable(root, engines)
        with steps("pieces") as set_detail:
            rows = table.build_rows(set_detail)
    return Pieces(
        backend=engines.backend.name,
        precision=engines.precision,
        reference="PyTorch",
        engines=engines.count,
        rows=rows,
    )


def _select_inputs(opened: Artifact, inputs: object) -> dict[str, NumpyArray] | None:
    """Return the passed inputs, else the artifact's example; None for the model's own example."""
    sets = input_sets(opened, inputs)
    if sets is None:
        sets = [sample.inputs for sample in opened.samples()[:1]]
    elif len(sets) != 1:
        raise UsageError(f"pieces: expected one set of inputs, found {len(sets)}")
    return sets[0] if sets else None
