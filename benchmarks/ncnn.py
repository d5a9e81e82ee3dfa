"""The ncnn wrapper against the best call of the bare engine: same network, same options."""

from __future__ import annotations

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
    from torch import Tensor, nn

    from benchmarks.turns import Measured

#: A single thread: two thread pools would wait for each other.
PARAMS = {"threads": 1}

#: Name, model with its input, calls per turn, turns, and the limit of the ratio.
CASES: tuple[tuple[str, Callable[[], tuple[nn.Module, Tensor]], int, int, float], ...] = (
    ("tiny", lambda: models.add(16), 200, 200, 1.3),
    ("ResNet-50", models.resnet50, 1, 40, 1.03),
)


def run() -> Iterator[Row]:
    """Measure a call in each case; then a batch of eight against eight bare calls."""
    for name, model, calls_a_turn, turns, limit in CASES:
        yield _row(name, model(), 1, (calls_a_turn, turns), limit)
    yield _row("ResNet-50, a batch of 8", models.resnet50(), 8, (1, 10), 1.05)


def _row(
    what: str, case: tuple[nn.Module, Tensor], batch: int, turns: tuple[int, int], limit: float
) -> Row:
    with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
        found = _measured(*case, Path(folder) / "a", batch, *turns)
    unit = "ms" if found.bare > 1e-3 else "µs"
    return Row.of("ncnn", what, "its best call", found, unit, limit)


def _measured(
    model: nn.Module, x: Tensor, folder: Path, batch: int, calls_a_turn: int, turns: int
) -> Measured:
    artifact = eb.deploy(
        model,
        x,
        work_dir=folder,
        backend="ncnn",
        params=PARAMS,
        dynamic={"x": {0: "batch"}} if batch > 1 else None,
        export=eb.ExportOptions(input_names=["x"]),
    ).artifact
    piece = x.numpy()
    with eb.load(artifact) as wrapper:
        feed = {"x": piece.repeat(batch, 0)}
        bare = _bare(artifact, piece)

        def eight() -> None:
            for _ in range(batch):
                bare()

        return compare(
            calls(wrapper, feed),
            calls(eight if batch > 1 else bare),
            calls_a_turn=calls_a_turn,
            turns=turns,
        )


def _bare(artifact: eb.Artifact, x: np.ndarray[Any, Any]) -> Callable[[], Any]:
    """Call ncnn with the least code: one extractor, one input, one output."""
    import ncnn
    import numpy as np

    net = ncnn.Net()
    net.opt.num_threads = 1
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.use_bf16_storage = net.opt.use_bf16_packed = False
    param, weights, _ = (artifact.path / file for file in artifact.files)
    assert net.load_param(str(param)) == 0
    assert net.load_model(str(weights)) == 0
    (given,), (wanted,) = net.input_indexes(), net.output_indexes()
    piece = x[0] if x.ndim > 1 else x

    def call() -> Any:
        extractor = net.create_extractor()
        extractor.input(given, ncnn.Mat(piece).clone())
        return np.array(extractor.extract(wanted)[1].numpy("f"))

    return call
