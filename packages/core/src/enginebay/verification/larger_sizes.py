"""Open sizes without a limit, tried as far above the example's as time and memory allow."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from enginebay.errors import ModelError
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

    Raises:
        ModelError: The model runs neither at a larger nor at a smaller size.
    """
    model, takes_drawn = recorder.model, "redrawn" in recorder.labels
    sizes = unlimited_sizes(model.dynamic, model.example_shapes)
    usual = recorder.cost * len(sizes)

    def runs_at(name: str, size: int) -> bool:
        probe = probes.at(shapes_at(model.dynamic, model.example_shapes, {name: size}))
        inputs = probe.inputs if takes_drawn else probe.tiled or {}
        label = f"the size {name}={size}"
        recorder.record(replace(probe, label=label, inputs=inputs))
        return label in recorder.labels

    for name, size in sizes.items():
        times, cost, power, above = 1, usual, 1.0, _TIMES
        while (larger := min(above, int(times / cost ** (1 / power)))) >= 2 * times:
            larger = 2 if times == 1 else larger
            wanted = larger * max(size, 1)
            if not runs_at(name, wanted):
                recorder.refused[name] = wanted
                if times == 1 and size > 1 and not runs_at(name, size - 1):
                    raise ModelError(
                        f"'{name}' is open, and the model fails at {size - 1} and at {wanted}: it "
                        f"takes the example's {size} alone",
                        hint=recorder.advise_on_sizes(),
                    )
                above = max(times, larger // 2)
                continue
            growth = math.log(recorder.cost * len(sizes) / cost) / math.log(larger / times)
            times, cost = larger, recorder.cost * len(sizes)
            power = min(max(growth, 1.0), 2.0)
