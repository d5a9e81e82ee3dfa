"""The layers of an artifact's engine, timed in a child process, with the modules they come from."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # the child reads time_here's annotations
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from enginebay import open_artifact
from enginebay.authors import LoadRequest, Sample, call, load_samples, save_samples
from enginebay.hooks import TimedLayer
from enginebay_lab.measurement.benchmark_rows import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors import NumpyArray

_FUNCTION = "enginebay_lab.measurement.layers:time_here"
#: Runs that a median is taken of, at least and at most.
FEWEST, MOST = 5, 100


def timed_layers(
    request: LoadRequest, inputs: Mapping[str, NumpyArray], runs: int, timeout: float
) -> tuple[Layer, ...]:
    """Time the layers of an engine, in the order in which they run.

    Args:
        request: The engine.
        inputs: What it is run with.
        runs: How many runs; 5 to 100 are made.
        timeout: Seconds that this may take.

    Raises:
        EnginebayError: The backend cannot time layers, or the engine failed.
    """
    with TemporaryDirectory(prefix="enginebay-layers-") as folder:
        from pathlib import Path

        samples = Path(folder) / "inputs.npz"
        save_samples(samples, [Sample(dict(inputs), {})])
        runs = max(FEWEST, min(MOST, runs))
        found = call(
            *(_FUNCTION, request, samples, runs), timeout=timeout, result_type=list[TimedLayer]
        )
    return _with_shares(found, open_artifact(request.directory).modules())


def time_here(request: LoadRequest, samples: Path, runs: int) -> list[TimedLayer]:
    """Time the layers in this process; called in a child process."""
    return request.time_layers(load_samples(samples)[0].inputs, runs)


def _with_shares(layers: Sequence[TimedLayer], modules: Mapping[str, str]) -> tuple[Layer, ...]:
    total = sum(layer.seconds for layer in layers)
    return tuple(
        Layer(
            **msgspec.structs.asdict(layer),
            share=layer.seconds / total if total else 0.0,
            modules=tuple(dict.fromkeys(modules[n] for n in layer.nodes if n in modules)),
        )
        for layer in layers
    )
