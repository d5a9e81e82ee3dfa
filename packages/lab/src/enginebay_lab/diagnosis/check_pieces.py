"""``pieces``: every module of an artifact's model alone, in PyTorch and in the engine."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

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
    model: Any = None,
    inputs: Any = None,
    *,
    rewriters: Sequence[RewriterSet | str] = (),
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 1800.0,
    watch: Callable[[Step], None] | None = None,
) -> Pieces:
    """Compare each module of a model alone with what the artifact's engine makes of it.

    The model is cut at its modules: a piece is a call of one without the calls inside of it, which
    are pieces themselves. Each is fed with the tensors that PyTorch has there, and with other
    values within their ranges, so that nothing is hidden by what comes after it: a dead branch, a
    saturated activation, a product with 0.

    Args:
        artifact: The folder, or what :func:`enginebay.deploy` returned.
        model: The model, as :func:`enginebay.deploy` takes it; by default the one that the
            artifact names.
        inputs: The inputs by name, one set of them; by default the artifact's example.
        rewriters: Those of your own that the artifact was deployed with: it does not keep them.
        rtol: Replaces the relative tolerance, which is that of a verdict.
        atol: Replaces the absolute tolerance.
        timeout: Seconds that each engine may take.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The artifact does not say which model it is, its model was cut, has no modules
            (an ONNX file), or it computes in 8 bits, where every layer is wrong by a little.
        ArtifactError: The artifact is damaged.
        MissingDependencyError: torch or onnx is not installed.

    Example:
        >>> import enginebay as eb
        >>> lab.pieces("work_dirs/net").summary  # doctest: +SKIP
        '412 of 412 pieces agree alone'
    """
    require("torch", "onnx")
    from enginebay_lab.diagnosis.bisect_model import bound_root
    from enginebay_lab.diagnosis.piece_engines import Options, PieceEngines
    from enginebay_lab.diagnosis.piece_table import PieceTable

    opened = open_artifact(artifact)
    check_one_engine(opened)
    sample = _one_set(opened, inputs)
    source = find_model(opened.named_model() if model is None else model)
    if source.model is None:
        raise UsageError(
            f"'{source.description}' has no modules to cut it at",
            hint="enginebay bisect ARTIFACT without --pieces searches its nodes",
        )
    steps = Steps(watch)
    options = Options(rewriters, rtol, atol, timeout)
    with TemporaryDirectory(prefix="enginebay-pieces-") as folder, unchanged(source):
        engines = PieceEngines(opened, None, options, Path(folder))
        with steps("reference"):
            _, root = bound_root(source, opened, sample)
            table = PieceTable(root, engines)
        with steps("pieces") as set_detail:
            rows = table.rows(set_detail)
    return Pieces(
        backend=engines.backend.name,
        precision=engines.precision,
        reference="PyTorch",
        engines=engines.count,
        rows=rows,
    )


def _one_set(opened: Artifact, inputs: Any) -> dict[str, NumpyArray] | None:
    """The inputs that were given, else the artifact's example; None for the model's own."""
    sets = input_sets(opened, inputs)
    if sets is None:
        sets = [sample.inputs for sample in opened.samples()[:1]]
    elif len(sets) != 1:
        raise UsageError(f"pieces are fed with one set of inputs, and there are {len(sets)}")
    return sets[0] if sets else None
