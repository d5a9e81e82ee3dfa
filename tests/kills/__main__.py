"""``python -m tests.kills``: kill and signal deployments, and print a table of leftovers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import enginebay as eb

from .deployments import Victim, random_runs

_COLUMNS = ("sent", "ended", "half", "lost", "orphans", "swallowed", "odd")


def main() -> int:
    """Run the deployments on each backend; 1 if a run failed."""
    wanted = _arguments()
    victims = {}
    with TemporaryDirectory(prefix="kills-") as folder:
        for index, name in enumerate(wanted.backend):
            count = wanted.count // len(wanted.backend)
            victims[name] = victim = Victim(Path(folder, name), name)
            for done, _ in enumerate(random_runs(victim, count, wanted.seed + index), 1):
                if done % 50 == 0:
                    print(f"{name}: {done} of {count}", file=sys.stderr, flush=True)
    print("| backend | " + " | ".join(_COLUMNS) + " |")
    print("|---|" + "--:|" * len(_COLUMNS))
    for name, victim in victims.items():
        figures = " | ".join(str(getattr(victim.tally, column)) for column in _COLUMNS)
        print(f"| {name} | {figures} |")
    for name, victim in victims.items():
        for note in victim.tally.notes:
            print(f"{name}: {note}")
    sent = sum(victim.tally.sent for victim in victims.values())
    failed = sum(victim.tally.failed for victim in victims.values())
    print(f"{sent - failed} passed, {failed} failed")
    return int(failed > 0)


def _arguments() -> argparse.Namespace:
    usable = [status.name for status in eb.list_backends() if status.state == "installed"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="signals, over all backends")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", nargs="+", default=usable)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
