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
    a multiple of the example's, since many models want one of 8 or 32. Twice the size shows how
    costs grow, and the next multiple is the largest that all names' shares of the costs allow. The
    recorder has just run the model at about the example's sizes.
    """
    model, takes_drawn = recorder.model, "redrawn" in recorder.labels
    sizes = unlimited_sizes(model.dynamic, model.example_shapes)
    usual = recorder.cost * len(sizes)
    for name, size in sizes.items():
        times, cost, power, above = 1, usual, 1.0, _TIMES
        while (larger := min(above, int(times / cost ** (1 / power)))) >= 2 * times:
            larger = 2 if times == 1 else larger
            wanted = larger * max(size, 1)
            probe = probes.at(shapes_at(model.dynamic, model.example_shapes, {name: wanted}))
            inputs = probe.inputs if takes_drawn else probe.tiled or {}
            label = f"the size {name}={wanted}"
            recorder.record(replace(probe, label=label, inputs=inputs))
            if label not in recorder.labels:
                recorder.refused[name] = wanted
                above = max(times, larger // 2)
                continue
            growth = math.log(recorder.cost * len(sizes) / cost) / math.log(larger / times)
            times, cost = larger, recorder.cost * len(sizes)
            power = min(max(growth, 1.0), 2.0)
