"""The bisection of a model that is at hand: its modules first, then the nodes of the culprit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.authors import find_model, reference_model, to_torch, unchanged
from enginebay.errors import EnginebayError, UsageError
from enginebay_lab.diagnosis.bisect_file import bisect_file
from enginebay_lab.diagnosis.bisect_nodes import deployed_names, find_node, kept_graph
from enginebay_lab.diagnosis.bisection import Bisection
from enginebay_lab.diagnosis.piece_engines import Options, PieceEngines
from enginebay_lab.diagnosis.pieces import Piece
from enginebay_lab.diagnosis.search import ModuleSearch, Subject
from enginebay_lab.diagnosis.taps import sizes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay import Artifact
    from enginebay.authors import BoundModel, ModelSource, NumpyArray, OutputComparison, Steps
    from enginebay_lab.diagnosis.bisect_nodes import Finding, GraphNode
    from enginebay_lab.diagnosis.search import Culprit, Judgement

#: What the model is held against.
_PYTORCH = "PyTorch"


def bisect_model(
    opened: Artifact,
    other: Artifact | None,
    model: Any,
    inputs: Mapping[str, NumpyArray] | None,
    label: str,
    *,
    folder: Path,
    options: Options,
    steps: Steps,
) -> Bisection:
    """Find the first place where an artifact's engine leaves a model.

    Args:
        opened: The artifact.
        other: The artifact to compare with; None for PyTorch.
        model: The model.
        inputs: The inputs by the artifact's names; None for the model's own example.
        label: What the inputs are called.
        folder: Where engines are built.
        options: What they are built with.
        steps: Records the steps.
    """
    engines = PieceEngines(opened, other, options, folder)
    source = find_model(model)
    if source.model is None:
        if other is not None:
            raise UsageError("two engines of an ONNX file are compared with its own evaluator")
        assert source.ir is not None
        path = source.ir.path
        return bisect_file(path, inputs, label, folder=folder, engines=engines, steps=steps)
    with unchanged(source):
        bound, root = bound_root(source, opened, inputs)
        result = Bisection(
            found=False,
            sample=label,
            reference=_PYTORCH if other is None else f"the engine of '{other.path}'",
        )
        with steps("build") as set_detail:
            set_detail("the whole model")
            judgement = engines.judge(*_whole(bound, root), comparators=_comparators(opened))
            whole = kept_graph(judgement.folder)
        if judgement.doubt or not _is_wrong(judgement):
            return _nothing_found(result, engines, judgement.doubt)
        with steps("modules") as set_detail:
            search = ModuleSearch(_subject(root, engines), engines.judge, set_detail)
            culprit = search.culprit()
            set_detail(culprit.piece.path or "the model itself")
        with steps("nodes") as set_detail:
            finding = find_node(culprit, engines, set_detail)
    return _result(result, culprit, finding, whole, engines, search)


def _whole(bound: BoundModel, root: Piece) -> tuple[Any, list[Any], list[str]]:
    """The model with its own arguments, so that its graph is the artifact's."""
    args, kwargs = root.call.fill(root.tensors)
    return root.module, [*args, kwargs], [spec.name for spec in bound.outputs]


def bound_root(
    source: ModelSource, opened: Artifact, inputs: Mapping[str, NumpyArray] | None
) -> tuple[BoundModel, Piece]:
    """Bind an artifact's model, and return it as a piece too.

    Args:
        source: The model.
        opened: The artifact.
        inputs: The inputs by the artifact's names; None for the model's own example.

    Raises:
        InputError: The inputs do not fit the model, or there are none.
    """
    names = [spec.name for spec in opened.inputs]
    bound = reference_model(source, names, inputs, [spec.name for spec in opened.outputs])
    assert bound.signature is not None
    given = {**bound.examples, **(inputs or {})}
    tensors = tuple(to_torch(given[name], bound.device) for name in bound.examples)
    leaves = tuple(range(len(bound.outputs)))
    return bound, Piece("", 0, bound.source.module, bound.signature.call, tensors, leaves)


def _subject(root: Piece, engines: PieceEngines) -> Subject:
    """The model with the taps that the rewritten model has as well."""
    shapes = sizes(root.module, root.call, root.tensors)
    try:
        with engines.rewriting(root.module) as rewriting:
            assert rewriting.model is not None
            exported = sizes(rewriting.model, root.call, root.tensors)
    except (EnginebayError, RuntimeError, TypeError, ValueError):
        exported = shapes  # what is rewritten for an exporter need not run without one
    common = {tap: shape for tap, shape in shapes.items() if exported.get(tap) == shape}
    return Subject(root.module, root.call, root.tensors, common)


def _comparators(opened: Artifact) -> dict[str, str]:
    return {",".join(one.outputs): one.comparator for one in opened.manifest.comparators}


def _is_wrong(judgement: Judgement) -> bool:
    return bool(judgement.crashed) or not all(o.passed for o in judgement.outputs.values())


def _nothing_found(result: Bisection, engines: PieceEngines, doubt: str) -> Bisection:
    reason = doubt or (
        "the engine is right on this sample when it is built again; what differs from the artifact "
        "are its open sizes, its other samples, and rewriters of your own (--rewriters)"
    )
    return msgspec.structs.replace(result, reason=reason, engines=engines.count)


def _result(
    result: Bisection,
    culprit: Culprit,
    finding: Finding,
    whole: list[GraphNode],
    engines: PieceEngines,
    search: ModuleSearch,
) -> Bisection:
    """Put together what was found."""
    path, node = culprit.piece.path, finding.node
    alone = culprit.alone or finding.comparison
    result = msgspec.structs.replace(
        result,
        found=True,
        module=path,
        accumulated=_error(culprit.accumulated),
        alone=_error(alone),
        rtol=alone.rtol if alone else None,
        atol=alone.atol if alone else None,
        step=finding.step,
        rewriters=finding.rewriters,
        engines=engines.count,
        places=search.places,
    )
    if node is not None:
        names = node.together or (node.name,)
        found = deployed_names(whole, finding.graph, names, path)
        result = msgspec.structs.replace(
            result,
            module=found[-1].module if finding.step == "engine" else path,
            node=found[-1].name,
            operator=node.operator,
            tensor=found[-1].tensor,
            together=tuple(each.name for each in found) if node.together else (),
        )
    failure = alone.reason if alone and alone.max_abs_error is None else ""
    return msgspec.structs.replace(result, reason=result.sentence(engines.backend.name, failure))


def _error(comparison: OutputComparison | None) -> float | None:
    return None if comparison is None else comparison.max_abs_error
