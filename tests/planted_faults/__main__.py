"""``python -m tests.planted_faults [MODEL …]``: search for every fault, and print the table."""

from __future__ import annotations

import sys
import warnings

from .faults import FAULTS, search


def main() -> int:
    """Return 1 if a fault is not found."""
    warnings.simplefilter("ignore")
    wanted = [fault for fault in FAULTS if fault.model in sys.argv[1:]] or FAULTS
    missed = 0
    print("| model | planted in | named | node | engine | alone | engines | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for fault in wanted:
        found = search(fault)
        missed += not found.is_right
        result = found.bisection
        mark = "✓" if found.is_right else "✗"
        alone = "" if result.alone is None else f"{result.alone:.1e}"
        way = " ".join(filter(None, (fault.backend, fault.exporter)))
        cells = (fault.model, fault.module, f"{mark} {result.module}", result.node, way, alone)
        more = (str(result.engines), f"{found.seconds:.0f}")
        print(f"| {' | '.join((*cells, *more))} |", flush=True)
    print(f"{len(wanted) - missed} passed, {missed} failed")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
