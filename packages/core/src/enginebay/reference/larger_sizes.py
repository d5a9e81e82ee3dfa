"""Runs at larger sizes than the example's, for dynamic dimensions without a largest size."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from enginebay.errors import ModelError
from enginebay.models import shapes_at, unlimited_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.reference.probes import ProbeGenerator
    from enginebay.reference.recorder import Recorder

_MAX_MULTIPLE = 10


def record_larger_sizes(recorder: Recorder, probes: ProbeGenerator) -> None:
    """Record outputs at up to ten times the example's size of each dimension without a limit.

    The recorder's last run must have had about the example's sizes: the time and the memory of
    that run decide how far the sizes are increased.

    Raises:
        ModelError: The model runs at the example's size only, not at a larger or a smaller size.
    """
    # If the probe with random values was dropped, larger inputs repeat the example's values.
    model, accepts_random_values = recorder.model, "redrawn" in recorder.labels
    sizes = unlimited_sizes(model.dynamic, model.example_shapes)
    # All dynamic dimensions share one budget, so each run costs a larger part if there are many.
    example_cost = recorder.cost * len(sizes)

    def runs_at(name: str, size: int) -> bool:
        probe = probes.draw_at(shapes_at(model.dynamic, model.example_shapes, {name: size}))
        inputs = probe.inputs if accepts_random_values else probe.tiled or {}
        label = f"the size {name}={size}"
        recorder.record_probe(replace(probe, label=label, inputs=inputs))
        return label in recorder.labels

    # One name at a time: ten times an image's height and width cost a hundred times as much.
    reached: dict[str, tuple[int, float]] = {}
    for name, size in sizes.items():
        # Costs grow at least with the size, and at most (attention) with its square.
        multiple, cost, power, limit = 1, example_cost, 1.0, _MAX_MULTIPLE
        # Multiples of the example's size, since many models require a multiple of 8 or 32.
        while (larger := min(limit, int(multiple / cost ** (1 / power)))) >= 2 * multiple:
            # The first step is small: it shows how costs grow.
            larger = 2 if multiple == 1 else larger
            larger_size = larger * max(size, 1)
            if not runs_at(name, larger_size):
                recorder.refused[name] = larger_size
                if multiple == 1 and size > 1 and not runs_at(name, size - 1):
                    raise ModelError(
                        f"the dimension '{name}' is dynamic, but the model fails at the sizes "
                        f"{size - 1} and {larger_size}, and runs only at the example's size {size}",
                        hint=recorder.advise_on_sizes(),
                    )
                limit = max(multiple, larger // 2)
                continue
            growth = math.log(recorder.cost * len(sizes) / cost) / math.log(larger / multiple)
            multiple, cost = larger, recorder.cost * len(sizes)
            power = min(max(growth, 1.0), 2.0)
        reached[name] = multiple, max(cost / example_cost, 1.0)
    if accepts_random_values and any(multiple > 1 for multiple, _ in reached.values()):
        _record_all(recorder, probes, sizes, reached, example_cost / len(sizes))


def _record_all(
    recorder: Recorder,
    probes: ProbeGenerator,
    sizes: Mapping[str, int],
    reached: Mapping[str, tuple[int, float]],
    cost: float,
) -> None:
    """Record all sizes at once, as large as the budget allows, with masks that have holes.

    An engine that goes wrong at far positions of a mask is right there for a mask of ones.
    """
    while math.prod(growth for _, growth in reached.values()) * cost > 1:
        # Half the size costs at most half as much.
        halved = {name: (max(m // 2, 1), max(g / 2, 1.0)) for name, (m, g) in reached.items()}
        if halved == reached:
            break
        reached = halved
    largest = {name: reached[name][0] * max(size, 1) for name, size in sizes.items()}
    recorder.record_probe(probes.draw_largest(largest))
