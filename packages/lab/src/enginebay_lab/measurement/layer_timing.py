"""Timing of an engine's layers in a child process, and the modules that the layers come from."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from enginebay import open_artifact
from enginebay.authors import isolation
from enginebay.authors.arrays import Sample, load_samples, save_samples
from enginebay.authors.artifacts import LoadRequest  # noqa: TC001 - the child process reads the annotations
from enginebay.hooks import TimedLayer
from enginebay_lab.measurement.benchmark_rows import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray

#: The function that runs in the child process.
_FUNCTION = "enginebay_lab.measurement.layer_timing:time_layers_here"
#: The smallest and the largest number of runs; the time of a layer is their median.
MIN_RUNS, MAX_RUNS = 5, 100


def time_layers_isolated(
    request: LoadRequest, inputs: Mapping[str, NumpyArray], runs: int, timeout: float
) -> tuple[Layer, ...]:
    """Time an engine's layers in a child process; return them in the order in which they run.

    Args:
        request: The engine's files and load options.
        inputs: The engine's inputs by name.
        runs: The desired number of engine runs; at least 5 and at most 100 are made.
        timeout: Time limit in seconds.

    Raises:
        EnginebayError: The backend cannot time layers, or the engine failed.
    """
    with TemporaryDirectory(prefix="enginebay-layers-") as folder:
        samples = Path(folder) / "inputs.npz"
        save_samples(samples, [Sample(dict(inputs), {})])
        runs = max(MIN_RUNS, min(MAX_RUNS, runs))
        layers = isolation.call(
            _FUNCTION,
            request,
            samples,
            runs,
            timeout=timeout,
            result_type=list[TimedLayer],
        )
    return _add_shares(layers, open_artifact(request.directory).modules())


def time_layers_here(request: LoadRequest, samples: Path, runs: int) -> list[TimedLayer]:
    """Return the timed layers of an engine; called in the child process."""
    return request.time_layers(load_samples(samples)[0].inputs, runs)


def _add_shares(layers: Sequence[TimedLayer], modules: Mapping[str, str]) -> tuple[Layer, ...]:
    total = sum(layer.seconds for layer in layers)
    return tuple(
        Layer(
            **msgspec.structs.asdict(layer),
            share=layer.seconds / total if total else 0.0,
            modules=tuple(dict.fromkeys(modules[n] for n in layer.nodes if n in modules)),
        )
        for layer in layers
    )
