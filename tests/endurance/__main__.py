"""``python -m tests.endurance``: many calls and contexts in several threads, in one table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import enginebay as eb

from . import calls, contexts
from .tally import FLAT

_COLUMNS = ("count", "wrong", "aliased", "leaked", "raised")


def main() -> int:
    """Run the requested calls and contexts; 1 if one failed."""
    wanted = _arguments()
    tallies = {}
    for name in wanted.backend:
        with TemporaryDirectory(prefix="endurance-") as folder:
            deployed = calls.deploy(Path(folder, name), name)
            with eb.load(deployed.artifact) as wrapper:
                calling = calls.ConcurrentCalls(wrapper, wanted.seed)
                calling.run(wanted.calls, wanted.threads)
        tallies[f"calls of {name}"] = calling.tally
        print(f"{name}: done", file=sys.stderr, flush=True)
    rewriting = contexts.ConcurrentContexts(wanted.seed)
    rewriting.run(wanted.contexts, wanted.threads)
    tallies["rewriting contexts"] = rewriting.tally
    print("| | " + " | ".join(_COLUMNS) + " | memory | kept |")
    print("|---|" + "--:|" * (len(_COLUMNS) + 2))
    for name, tally in tallies.items():
        figures = " | ".join(f"{getattr(tally, column):,}" for column in _COLUMNS)
        memory, kept = (f"{each / 2**20:+.1f} MiB" for each in (tally.growth, tally.kept))
        print(f"| {name} | {figures} | {memory} | {kept} |")
    for name, tally in tallies.items():
        for note in tally.notes:
            print(f"{name}: {note}")
        if tally.kept > FLAT:
            print(f"{name}: kept more than {FLAT / 2**20:.0f} MiB")
    clean = sum(tally.is_clean for tally in tallies.values())
    print(f"{clean} passed, {len(tallies) - clean} failed")
    return int(clean < len(tallies))


def _arguments() -> argparse.Namespace:
    usable = [status.name for status in eb.list_backends() if status.state == "installed"]
    parser = argparse.ArgumentParser(prog="python -m tests.endurance")
    parser.add_argument("--calls", type=int, default=100_000, help="for each backend")
    parser.add_argument("--contexts", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", nargs="*", default=usable)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
