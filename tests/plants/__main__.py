"""``python -m tests.plants [MODEL …]``: search for every plant, and print the table."""

from __future__ import annotations

import sys
import warnings

from .planted import PLANTS, search


def main() -> int:
    """Return 1 if a plant is not found."""
    warnings.simplefilter("ignore")
    wanted = [plant for plant in PLANTS if plant.model in sys.argv[1:]] or PLANTS
    missed = 0
    print("| model | planted in | named | node | engine | alone | engines | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for plant in wanted:
        found = search(plant)
        missed += not found.is_right
        result = found.bisection
        mark = "✓" if found.is_right else "✗"
        alone = "" if result.alone is None else f"{result.alone:.1e}"
        way = " ".join(filter(None, (plant.backend, plant.exporter)))
        cells = (plant.model, plant.module, f"{mark} {result.module}", result.node, way, alone)
        more = (str(result.engines), f"{found.seconds:.0f}")
        print(f"| {' | '.join((*cells, *more))} |", flush=True)
    print(f"{len(wanted) - missed} passed, {missed} failed")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
