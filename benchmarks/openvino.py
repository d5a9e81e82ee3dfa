"""OpenVINO's wrapper against the engine's own best call: shared inputs, outputs left in place."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import enginebay as eb
from benchmarks import models
from benchmarks.table import Row
from benchmarks.turns import calls, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from torch import Tensor, nn

    from benchmarks.turns import Measured

#: A single thread on both sides: two thread pools would wait for each other.
PARAMS = {"threads": 1}


class _Case(NamedTuple):
    what: str
    model: Callable[[], tuple[nn.Module, Tensor]]
    limit: float
    calls_a_turn: int
    turns: int


CASES = (
    _Case("Add, 16 floats", lambda: models.add(16), 1.1, 300, 300),
    _Case("ResNet-50", models.resnet50, 1.03, 1, 100),
)


def run() -> Iterator[Row]:
    """Measure a row for each model."""
    for case in CASES:
        found = _measured(case)
        unit = "ms" if found.bare > 1e-3 else "µs"
        yield Row.of("openvino", case.what, "its best call", found, unit, case.limit)


def _measured(case: _Case) -> Measured:
    model, example = case.model()
    with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
        deployed = eb.deploy(
            model, example, work_dir=Path(folder) / "artifact", backend="openvino", params=PARAMS
        )
        with eb.load(deployed.artifact) as wrapper:
            feed = {wrapper.input_names[0]: example.numpy()}
            return compare(
                calls(wrapper, feed),
                calls(_bare(deployed.artifact, example.numpy())),
                calls_a_turn=case.calls_a_turn,
                turns=case.turns,
            )


def _bare(artifact: eb.Artifact, array: np.ndarray[Any, Any]) -> Callable[[], Any]:
    """Call a request in the fastest way: with a shared array, and a view as the result.

    ``infer({name: array}, share_inputs=True, share_outputs=True)`` takes twice as long on a tiny
    model, because it processes the dict in Python.
    """
    import openvino as ov

    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"}
    compiled = ov.Core().compile_model(artifact.path / artifact.files[0], "CPU", options)
    request = compiled.create_infer_request()

    def call() -> Any:
        request.set_input_tensor(0, ov.Tensor(array, shared_memory=True))
        return request.infer(share_outputs=True)[0]

    return call
