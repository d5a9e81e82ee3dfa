"""``python -m tests.onnx_suite [--engine NAME …] [--every N]``: ONNX's cases through each wrapper.

Exit code 1 if a case passes on the bare engine and fails in Enginebay's wrapper, unless it is an
exception.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .cases import load_cases
from .engines import BARE
from .run import lost_cases, run_all

#: Cases that a wrapper may lose, each with the reason.
EXCEPTIONS: dict[tuple[str, str], str] = {}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.onnx_suite", description=__doc__)
    parser.add_argument("--engine", action="append", choices=sorted(BARE))
    parser.add_argument("--every", type=int, default=1, help="take every Nth case only")
    options = parser.parse_args()
    names = sorted(load_cases())[:: options.every]
    lost = passed = 0
    for engine in options.engine or sorted(BARE):
        start = time.monotonic()
        found = run_all(engine, names)
        lost += _report(engine, names, found, time.monotonic() - start)
        passed += sum(found.get((name, "wrapped")) == "pass" for name in names)
    print(f"{passed} passed, {lost} failed")
    return 1 if lost else 0


def _report(
    engine: str, names: list[str], found: dict[tuple[str, str], str], seconds: float
) -> int:
    """Print the results; return the number of lost cases that are not exceptions."""
    cases = Counter(name.partition("/")[0] for name in names)
    passed = {
        way: Counter(name.partition("/")[0] for name in names if found.get((name, way)) == "pass")
        for way in ("bare", "wrapped")
    }
    for kind, count in cases.items():
        print(
            f"{engine:12} {kind:18} {count:5} cases, bare {passed['bare'][kind]:5}, "
            f"wrapped {passed['wrapped'][kind]:5}"
        )
    lost = lost_cases(found)
    for name, reason in lost.items():
        excuse = EXCEPTIONS.get((engine, name))
        print(f"  {'excepted' if excuse else 'LOST'} {name}: {excuse or reason}")
    crashes = [key for key, outcome in found.items() if outcome.startswith("the process ended")]
    print(f"{engine:12} {len(lost)} lost, {len(crashes)} crashes contained, {seconds:.0f} s")
    return sum((engine, name) not in EXCEPTIONS for name in lost)


if __name__ == "__main__":
    sys.exit(main())
