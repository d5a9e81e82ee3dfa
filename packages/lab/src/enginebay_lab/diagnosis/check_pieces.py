"""``pieces``: run each module separately in PyTorch and in an engine, and compare the outputs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay import open_artifact
from enginebay.authors import Steps
from enginebay.authors.artifacts import input_sets
from enginebay.authors.sources import find_model, unchanged
from enginebay.environment import require
from enginebay.errors import UsageError
from enginebay_lab.diagnosis.bisect_artifact import check_one_engine
from enginebay_lab.diagnosis.piece_rows import Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay import Artifact, RewriterSet
    from enginebay.authors import Step
    from enginebay.authors.arrays import NumpyArray


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
    """Run each module of a model separately in PyTorch and in an engine, and compare the outputs.

    The model is cut into pieces: a piece is a submodel that runs one call of a module. Calls of
    other modules inside this call are separate pieces. The engine runs each piece twice: on the
    piece's inputs in PyTorch, and on random values within the ranges of these inputs. This finds
    errors that the rest of the model hides: in a dead branch, before a saturated activation or
    before a product with 0.

    Args:
        artifact: The artifact's folder, or the artifact that :func:`enginebay.deploy` returned.
        model: The model, in any form that :func:`enginebay.deploy` accepts; by default the model
            whose name the artifact records.
        inputs: One set of inputs by name; by default the artifact's first recorded sample.
        rewriters: Your own rewriters that the artifact was deployed with: an artifact does not
            store them.
        rtol: Relative tolerance; by default the tolerance for the engine's precision.
        atol: Absolute tolerance; by default the tolerance for the engine's precision.
        timeout: Time limit in seconds for each engine.
        watch: Called with each step when it starts, when its detail changes and when it ends.

    Raises:
        UsageError: The artifact does not record its model, consists of several engines, was
            deployed from an ONNX file, or computes in 8 bits, where every layer has a small error.
        ArtifactError: The artifact is damaged.
        MissingDependencyError: torch or onnx is not installed.

    Example:
        >>> import enginebay as eb
        >>> lab.pieces("work_dirs/net").summary  # doctest: +SKIP
        '412 of 412 pieces agree alone'
    """
    require("torch", "onnx")  # these modules import them
    from enginebay_lab.diagnosis.bisect_model import bind_root
    from enginebay_lab.diagnosis.piece_engines import BuildOptions, PieceEngines
    from enginebay_lab.diagnosis.piece_table import PieceTable

    opened = open_artifact(artifact)
    check_one_engine(opened)
    sample = _select_inputs(opened, inputs)
    source = find_model(opened.named_model() if model is None else model)
    if source.model is None:
        raise UsageError(
            f"'{source.description}' is an ONNX file, which has no modules to compare",
            hint="compare the file's nodes instead: enginebay bisect ARTIFACT without --pieces",
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
    """Return the caller's inputs, else those of the artifact's first sample, else None."""
    sets = input_sets(opened, inputs)
    if sets is None:
        sets = [sample.inputs for sample in opened.samples()[:1]]
    elif len(sets) != 1:
        raise UsageError(f"'pieces' accepts a single set of inputs, found {len(sets)}")
    return sets[0] if sets else None
