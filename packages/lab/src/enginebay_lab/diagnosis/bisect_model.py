"""The search for a model's first wrong module, then for the wrong ONNX node in this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.arrays import to_torch
from enginebay.authors.sources import find_model, reference_model, unchanged
from enginebay.errors import EnginebayError, Hint, UsageError, argument
from enginebay_lab.diagnosis.bisect_file import bisect_file
from enginebay_lab.diagnosis.bisect_nodes import (
    find_wrong_node,
    match_deployed_nodes,
    read_exported_graph,
)
from enginebay_lab.diagnosis.bisection import Bisection
from enginebay_lab.diagnosis.intermediate_outputs import record_shapes
from enginebay_lab.diagnosis.module_search import ModuleSearch, SearchTarget, max_error
from enginebay_lab.diagnosis.piece_engines import BuildOptions, PieceEngines
from enginebay_lab.diagnosis.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import nn

    from enginebay import Artifact
    from enginebay.authors import Steps
    from enginebay.authors.arrays import NumpyArray
    from enginebay.authors.sources import BoundModel, ModelSource
    from enginebay_lab.diagnosis.bisect_nodes import GraphNode, NodeFinding
    from enginebay_lab.diagnosis.module_search import Culprit, EngineComparison

_PYTORCH = "PyTorch"


def bisect_model(
    opened: Artifact,
    other: Artifact | None,
    model: object,
    inputs: Mapping[str, NumpyArray] | None,
    label: str,
    *,
    recorded: Mapping[str, NumpyArray] | None,
    folder: Path,
    options: BuildOptions,
    steps: Steps,
) -> Bisection:
    """Find the first module that an artifact's engine computes wrongly, and the wrong node in it.

    Args:
        opened: The artifact.
        other: The artifact whose engine is the reference; None to compare with PyTorch.
        model: The model, in any form that :func:`enginebay.deploy` accepts.
        inputs: The inputs by their names in the artifact; None for the model's example inputs.
        label: The name of the sample that contains the inputs, such as ``item 3``.
        recorded: The outputs of the artifact's reference on these inputs; None if unknown.
        folder: A folder for the engines' files.
        options: The options for building and comparing each engine.
        steps: Reports the steps to the caller.

    Raises:
        UsageError: The model is an ONNX file, but ``inputs`` is None or ``other`` is an artifact.
    """
    engines = PieceEngines(opened, other, options, folder)
    source = find_model(model)
    if source.model is None:
        if other is not None:
            raise UsageError(
                "the artifact was deployed from an ONNX file, so it can only be compared with "
                "onnx's reference evaluator",
                hint=Hint("omit {}", argument("against")),
            )
        assert source.ir is not None
        path = source.ir.path
        return bisect_file(
            *(path, inputs, label),
            recorded=recorded,
            folder=folder,
            engines=engines,
            steps=steps,
        )
    with unchanged(source):
        bound, root = bind_root(source, opened, inputs)
        result = Bisection(
            found=False,
            sample=label,
            reference=_PYTORCH if other is None else f"the engine of '{other.path}'",
        )
        with steps("build") as set_detail:
            set_detail("the whole model")
            comparison = engines.compare_module(
                *_engine_arguments(bound, root), comparators=_comparator_names(opened)
            )
            whole = read_exported_graph(comparison.folder)
        # The outputs of a random model differ in each run, so a difference would prove nothing.
        if comparison.doubt or not _is_wrong(comparison):
            return _build_empty_result(result, engines, comparison.doubt)
        with steps("modules") as set_detail:
            search = ModuleSearch(_build_target(root, engines), engines.compare_module, set_detail)
            culprit = search.find_culprit()
            set_detail(culprit.piece.path or "the model itself")
        with steps("nodes") as set_detail:
            finding = find_wrong_node(culprit, engines, set_detail)
    return _build_result(result, culprit, finding, whole, engines, search)


def _engine_arguments(bound: BoundModel, root: Piece) -> tuple[nn.Module, list[object], list[str]]:
    # With the model's own arguments instead of flat tensors, its graph equals the artifact's.
    args, kwargs = root.call.fill(root.tensors)
    return root.module, [*args, kwargs], [spec.name for spec in bound.outputs]


def bind_root(
    source: ModelSource, opened: Artifact, inputs: Mapping[str, NumpyArray] | None
) -> tuple[BoundModel, Piece]:
    """Bind an artifact's model to inputs; return the bound model, and a ``Piece``.

    The ``Piece`` is a submodel that runs one module call: here, the call of the whole model.

    Args:
        source: The artifact's model.
        opened: The artifact.
        inputs: The inputs by their names in the artifact; None for the model's example inputs.

    Raises:
        InputError: The inputs do not fit the model, or the model has no example inputs.
    """
    names = [spec.name for spec in opened.inputs]
    bound = reference_model(source, names, inputs, [spec.name for spec in opened.outputs])
    assert bound.signature is not None
    arrays = {**bound.examples, **(inputs or {})}  # the example replaces missing inputs
    tensors = tuple(to_torch(arrays[name], bound.device) for name in bound.examples)
    leaves = tuple(range(len(bound.outputs)))
    return bound, Piece("", 0, bound.source.module, bound.signature.call, tensors, leaves)


def _build_target(root: Piece, engines: PieceEngines) -> SearchTarget:
    """Return the model whose modules are searched, and the module outputs that are compared.

    A module's output is not compared if a rewriter changes the output's shape, unless the module is
    the model itself.
    """
    shapes = record_shapes(root.module, root.call, root.tensors)
    try:
        with engines.rewriting(root.module) as rewriting:
            assert rewriting.model is not None
            exported = record_shapes(rewriting.model, root.call, root.tensors)
    except (EnginebayError, RuntimeError, TypeError, ValueError):
        exported = shapes  # a model that is rewritten for an exporter may not run outside it
    common = {
        output: shape
        for output, shape in shapes.items()
        if exported.get(output) == shape or output.module == ""
    }
    return SearchTarget(root.module, root.call, root.tensors, common)


def _comparator_names(opened: Artifact) -> dict[str, str]:
    return {",".join(record.outputs): record.comparator for record in opened.manifest.comparators}


def _is_wrong(comparison: EngineComparison) -> bool:
    # An engine that crashed has no outputs.
    return bool(comparison.crashed) or not all(o.passed for o in comparison.outputs.values())


def _build_empty_result(result: Bisection, engines: PieceEngines, doubt: str) -> Bisection:
    reason = doubt or (
        "a rebuilt engine has no wrong output on this sample; the artifact may differ because of "
        "its dynamic dimensions, its other samples, or your own rewriters (--rewriters)"
    )
    return msgspec.structs.replace(result, reason=reason, engines=engines.count)


def _build_result(
    result: Bisection,
    culprit: Culprit,
    finding: NodeFinding,
    whole: list[GraphNode],
    engines: PieceEngines,
    search: ModuleSearch,
) -> Bisection:
    path, node = culprit.piece.path, finding.node
    alone = culprit.alone or finding.comparison
    result = msgspec.structs.replace(
        result,
        found=True,
        module=path,
        accumulated=max_error(culprit.accumulated),
        alone=max_error(alone),
        rtol=alone.rtol if alone else None,
        atol=alone.atol if alone else None,
        step=finding.step,
        rewriters=finding.rewriters,
        engines=engines.count,
        places=search.places,
    )
    if node is not None:
        names = node.together or (node.name,)
        nodes = match_deployed_nodes(whole, finding.graph, names, path)
        result = msgspec.structs.replace(
            result,
            module=nodes[-1].module if finding.step == "engine" else path,
            node=nodes[-1].name,
            operator=node.operator,
            tensor=nodes[-1].tensor,
            together=tuple(matched.name for matched in nodes) if node.together else (),
        )
    failure = alone.reason if alone and alone.max_abs_error is None else ""
    return msgspec.structs.replace(result, reason=result.sentence(engines.backend.name, failure))
