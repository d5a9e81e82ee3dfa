"""The bisection of an ONNX file, which has nodes and no modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import source_modules
from enginebay.errors import UsageError
from enginebay_lab.diagnosis.bisect_nodes import all_values, runner
from enginebay_lab.diagnosis.bisection import Bisection
from enginebay_lab.diagnosis.graph import Graph
from enginebay_lab.diagnosis.nodes import NodeSearch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.authors import NumpyArray, Steps
    from enginebay_lab.diagnosis.piece_engines import PieceEngines

_EVALUATOR = "onnx's reference evaluator"


def bisect_file(
    path: Path,
    inputs: Mapping[str, NumpyArray] | None,
    label: str,
    *,
    folder: Path,
    engines: PieceEngines,
    steps: Steps,
) -> Bisection:
    """Find the first node of an ONNX file that an engine gets wrong.

    Args:
        path: The file.
        inputs: The inputs by name.
        label: What the inputs are called.
        folder: Where the evaluator's file is written.
        engines: Builds engines.
        steps: Records the steps.

    Raises:
        UsageError: There are no inputs.
        ModelError: onnx's reference evaluator cannot run the file.
    """
    if inputs is None:
        raise UsageError("nothing is recorded to run the engine on", hint="--input NAME=SPEC")
    graph = Graph(path)
    result = Bisection(found=False, sample=label, reference=_EVALUATOR)
    with steps("reference"):
        values = all_values(graph, inputs, folder / "all.onnx", engines.timeout)
    with steps("build"):
        expected = {name: values[name] for name in graph.outputs}
        compared = engines.judge_file(path, inputs, expected)
        wrong = [output for output in compared if not output.passed]
    if not wrong:
        reason = f"{engines.backend.name} is right on this sample: nothing to bisect"
        return msgspec.structs.replace(result, reason=reason, engines=engines.count)
    worst = max(wrong, key=lambda output: output.badness)
    with steps("nodes") as set_detail:
        search = NodeSearch(graph, values, runner(engines), set_detail)
        node = search.first_wrong(worst.name)
    result = msgspec.structs.replace(
        result,
        found=True,
        accumulated=worst.max_abs_error,
        rtol=worst.rtol,
        atol=worst.atol,
        step="engine",
        engines=engines.count,
    )
    if node is not None:
        result = msgspec.structs.replace(
            result,
            module=source_modules(path).get(node.name, ""),
            node=node.name,
            operator=node.operator,
            tensor=node.tensor,
            together=node.together,
            accumulated=node.accumulated,
            alone=node.alone,
        )
    return msgspec.structs.replace(result, reason=result.sentence(engines.backend.name))
