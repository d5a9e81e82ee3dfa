"""``python -m tests.races`` reads artifacts while others overwrite them, and prints one table."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.races.races import TITLES, race


def main() -> int:
    """Run each race for the given time; 1 if a reader or a writer failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each race")
    seconds = parser.parse_args().seconds
    print(f"{'':32}{'runs':>8}{'wrong':>8}  what went wrong")
    passed = failed = 0
    for name, title in TITLES.items():
        with tempfile.TemporaryDirectory() as folder:
            counts = race(name, Path(folder), seconds)
        for role, (runs, wrong) in counts.items():
            failed += wrong.total()
            passed += runs - wrong.total()
            examples = "; ".join(f"{count}× {line}" for line, count in wrong.most_common(3))
            print(f"{title + ': ' + role:32}{runs:>8}{wrong.total():>8}  {examples}")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
