"""A wrapper's call against the same call through other toolkits, on one ONNX Runtime session each.

All run the same file with one thread. Polygraphy's runner and Optimum's model check and convert
their inputs, as Enginebay's wrapper does.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import enginebay as eb
from benchmarks import models
from benchmarks.table import Row
from benchmarks.turns import calls, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    Feed = dict[str, np.ndarray[Any, Any]]

PARAMS = {"intra_op_threads": 1}
#: The package of each peer, as pip names it.
PACKAGES = {"polygraphy": "polygraphy", "optimum.onnxruntime": "optimum-onnx[onnxruntime]"}


def run() -> Iterator[Row]:
    """Measure each model through the wrapper and each installed peer."""
    missing = [pip for module, pip in PACKAGES.items() if not _is_installed(module)]
    for name in missing:
        print(f"peers: {name} is not installed, and was not measured", file=sys.stderr)
    for what, model, calls_a_turn, turns, limit in (
        ("Add, 16 floats", models.add(16), 300, 200, 1.0),
        ("ResNet-50", models.resnet50(), 1, 60, 1.02),
    ):
        with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
            network, example = model
            artifact = eb.deploy(
                *(network, example),
                work_dir=Path(folder) / "artifact",
                backend="onnxruntime",
                params=PARAMS,
            ).artifact
            with eb.load(artifact) as wrapper:
                feed = {wrapper.input_names[0]: example.numpy()}
                for peer, call in _peers(artifact):
                    found = compare(
                        *(calls(wrapper, feed), calls(call, feed)),
                        calls_a_turn=calls_a_turn,
                        turns=turns,
                    )
                    unit = "ms" if found.bare > 1e-3 else "µs"
                    yield Row.of("peers", what, peer, found, unit, limit)


def _is_installed(module: str) -> bool:
    return find_spec(module.partition(".")[0]) is not None


def _peers(artifact: eb.Artifact) -> Iterator[tuple[str, Callable[[Feed], Any]]]:
    if _is_installed("polygraphy"):
        from polygraphy.backend.onnxrt import OnnxrtRunner

        with OnnxrtRunner(_session(artifact)) as runner:
            yield "Polygraphy's OnnxrtRunner", runner.infer
    if _is_installed("optimum.onnxruntime"):
        from optimum.onnxruntime import ORTModelForCustomTasks
        from transformers import PretrainedConfig

        model = ORTModelForCustomTasks(config=PretrainedConfig(), session=_session(artifact))
        yield "Optimum's ORTModel", lambda feed: model(**feed)


def _session(artifact: eb.Artifact) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        artifact.path / artifact.files[0], options, providers=["CPUExecutionProvider"]
    )
