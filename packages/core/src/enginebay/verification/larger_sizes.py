"""Open sizes without a limit, tried as far above the example's as time and memory allow."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from enginebay.models import shapes_at, unlimited_sizes

if TYPE_CHECKING:
    from enginebay.verification.probes import Probes
    from enginebay.verification.recorder import Recorder

#: How many times the example's size is enough.
_TIMES = 10


def record_larger(recorder: Recorder, probes: Probes) -> None:
    """Record each open size without a limit at up to ten times the example's.

    Each is larger alone: ten times an image's height and width cost a hundred times as much. It is
    a multiple of the example's, since many models want one of 8 or 32. At first costs are taken to
    grow with its square, as those of attention do, then as they were seen to grow. The recorder has
    just run the model at about the example's sizes.
    """
    model, usual = recorder.model, recorder.cost
    takes_drawn = "redrawn" in recorder.labels
    for name, size in unlimited_sizes(model.dynamic, model.example_shapes).items():
        times, cost, power, above = 1, usual, 2.0, _TIMES
        while (larger := min(above, int(times / cost ** (1 / power)))) > times:
            wanted = larger * max(size, 1)
            probe = probes.at(shapes_at(model.dynamic, model.example_shapes, {name: wanted}))
            if probe.label in recorder.labels:
                break
            recorder.record(probe if takes_drawn else replace(probe, inputs=probe.tiled or {}))
            if probe.label not in recorder.labels:
                recorder.refused[name] = wanted
                above = max(times, larger // 2)
                continue
            growth = math.log(recorder.cost / cost) / math.log(larger / times)
            times, cost, power = larger, recorder.cost, min(max(growth, 1.0), 2.0)
