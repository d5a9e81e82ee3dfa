"""The bisection of an artifact that was deployed from an ONNX file: a search among the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.files import source_modules
from enginebay.errors import UsageError
from enginebay_lab.diagnosis.bisect_nodes import evaluate_tensors, make_runner
from enginebay_lab.diagnosis.bisection import Bisection
from enginebay_lab.diagnosis.node_search import NodeSearch
from enginebay_lab.diagnosis.onnx_graph import OnnxGraph

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.authors import Steps
    from enginebay.authors.arrays import NumpyArray
    from enginebay_lab.diagnosis.piece_engines import PieceEngines

_EVALUATOR = "onnx's reference evaluator"


def bisect_file(
    path: Path,
    inputs: Mapping[str, NumpyArray] | None,
    label: str,
    *,
    recorded: Mapping[str, NumpyArray] | None,
    folder: Path,
    engines: PieceEngines,
    steps: Steps,
) -> Bisection:
    """In the graph of an ONNX file, find the first node that an engine computes wrongly.

    Args:
        path: The ONNX file.
        inputs: The inputs by name; None if the artifact has no recorded sample.
        label: The name of the sample that contains the inputs, such as ``item 3``.
        recorded: The outputs of the artifact's reference on these inputs; None if unknown.
        folder: A folder for temporary files.
        engines: Builds engines and compares their outputs.
        steps: Reports the steps to the caller.

    Raises:
        UsageError: ``inputs`` is None.
        ModelError: onnx's reference evaluator cannot run the file.
    """
    if inputs is None:
        raise UsageError("the artifact has no recorded inputs", hint="add --input NAME=SPEC")
    graph = OnnxGraph(path)
    result = Bisection(found=False, sample=label, reference=_EVALUATOR)
    # There is no PyTorch model, so the values of the evaluator are taken as correct.
    with steps("reference"):
        values = evaluate_tensors(graph, inputs, folder / "all.onnx", engines.timeout)
    with steps("build"):
        expected = {name: values[name] for name in graph.outputs}
        compared = engines.compare_file(path, inputs, expected)
        wrong = [output for output in compared if not output.passed]
    if not wrong:
        name = engines.backend.name
        reason = f"{name} has no wrong output on this sample: nothing to bisect"
        others = engines.compare_values(recorded, expected, engines.precision) if recorded else ()
        if not all(output.passed for output in others):
            reason = (
                f"{name} computes the file rightly, but the file differs from the model that the "
                "artifact was verified against: was it exported from other weights, or from "
                "another model?"
            )
            result = msgspec.structs.replace(result, step="export")
        return msgspec.structs.replace(result, reason=reason, engines=engines.count)
    worst = max(wrong, key=lambda output: output.badness)  # the search follows a single output
    with steps("nodes") as set_detail:
        search = NodeSearch(graph, values, make_runner(engines), set_detail)
        node = search.find_first_wrong(worst.name)
    result = msgspec.structs.replace(
        result,
        found=True,
        accumulated=worst.max_abs_error,
        rtol=worst.rtol,
        atol=worst.atol,
        # Not "export": the file itself is the reference.
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
