"""Open sizes without a limit, tried as far above the example's as time and memory allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from enginebay.models import shapes_at, unlimited_sizes

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray
    from enginebay.verification.probes import Probe, Probes
    from enginebay.verification.recorder import Recorder

    Arrays = dict[str, NumpyArray]

#: How many times the example's size is enough.
_TIMES = 10


def record_larger(recorder: Recorder, probes: Probes) -> None:
    """Keep a sample for each open size without a limit, at up to ten times the example's.

    Each size is larger alone: ten times an image's height and width cost a hundred times as much.
    It is a multiple of the example's, since many models want one of 8 or 32. At first costs are
    taken to grow with its square, as those of attention do, then as they were seen to grow.

    Args:
        recorder: What runs the model; it has just run at about the example's sizes.
        probes: Draws the inputs.
    """
    model, usual = recorder.model, recorder.cost
    for name, size in unlimited_sizes(model.dynamic, model.example_shapes).items():
        largest: tuple[Probe, Arrays, Arrays] | None = None
        times, cost, power, above = 1, usual, 2.0, _TIMES
        while larger := _affordable(times, cost, power, above):
            wanted = larger * max(size, 1)
            shapes = shapes_at(model.dynamic, model.example_shapes, {name: wanted})
            probe = probes.at(shapes)
            if (arrays := recorder.run_probe(probe)) is None:
                recorder.refused[name] = wanted
                above = max(times, larger // 2)
                continue
            growth = math.log(recorder.cost / cost) / math.log(larger / times)
            times, cost, power = larger, recorder.cost, min(max(growth, 1.0), 2.0)
            largest = probe, *arrays
        if largest is not None and recorder.accepts(largest[0].label, largest[2]):
            recorder.keep(*largest)


def _affordable(times: int, cost: float, power: float, above: int) -> int:
    """The largest multiple of the example's size whose run is affordable; 0 if none is.

    Args:
        times: The multiple that a run is known of.
        cost: What that run cost, as a part of what one may.
        power: How costs grow with the multiple.
        above: The largest multiple to try.
    """
    multiples = range(above, times, -1)
    return next((each for each in multiples if cost * (each / times) ** power <= 1), 0)
