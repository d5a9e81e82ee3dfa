"""A wrapper's call against the best call of the bare engine: same model, same options."""

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

    from benchmarks.turns import Side

    Feed = dict[str, np.ndarray[Any, Any]]


class Engine(NamedTuple):
    """An engine without Enginebay.

    Attributes:
        params: The parameters of both sides. A single thread: two pools would wait for each other.
        bare: Given an artifact and a feed, the engine's best call on NumPy arrays and its
            arguments.
    """

    params: dict[str, Any]
    bare: Callable[[eb.Artifact, Feed], tuple[Any, ...]]


def _onnxruntime(artifact: eb.Artifact, feed: Feed) -> tuple[Any, ...]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        artifact.path / artifact.files[0], options, providers=["CPUExecutionProvider"]
    )
    return session.run, [spec.name for spec in artifact.outputs], feed


ENGINES = {"onnxruntime": Engine({"intra_op_threads": 1}, _onnxruntime)}


class _Case(NamedTuple):
    what: str
    model: Callable[[], tuple[nn.Module, Tensor]]
    numpy_limit: float
    torch_limit: float | None
    calls_a_turn: int
    turns: int


CASES = (
    _Case("Add, 16 floats", lambda: models.add(16), 1.15, 1.8, 500, 400),
    _Case("Add, 2^20 floats", lambda: models.add(1 << 20), 1.03, None, 20, 600),
    _Case("ResNet-50", models.resnet50, 1.01, 1.01, 1, 200),
)


def run() -> Iterator[Row]:
    """Measure a row for each installed engine, model and kind of array."""
    installed = {status.name for status in eb.list_backends() if status.state == "installed"}
    for name in ENGINES.keys() & installed:
        for case in CASES:
            with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
                yield from _rows(name, case, Path(folder) / "artifact")


def _rows(name: str, case: _Case, folder: Path) -> Iterator[Row]:
    engine = ENGINES[name]
    model, example = case.model()
    deployed = eb.deploy(model, example, work_dir=folder, backend=name, params=engine.params)
    with eb.load(deployed.artifact) as wrapper:
        feed = {wrapper.input_names[0]: example.numpy()}
        bare = calls(*engine.bare(deployed.artifact, feed))
        yield _row(name, case, "NumPy", calls(wrapper, feed), bare, case.numpy_limit)
        if case.torch_limit is not None:
            tensors = {wrapper.input_names[0]: example}
            yield _row(name, case, "torch", calls(wrapper, tensors), bare, case.torch_limit)


def _row(name: str, case: _Case, kind: str, ours: Side, bare: Side, limit: float) -> Row:
    found = compare(ours, bare, calls_a_turn=case.calls_a_turn, turns=case.turns)
    unit = "ms" if found.bare > 1e-3 else "µs"
    return Row.of("wrapper", f"{case.what}, {kind}", f"{name} on NumPy", found, unit, limit)
