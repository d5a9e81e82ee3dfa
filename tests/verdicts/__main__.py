"""``python -m tests.verdicts``: every wrong pair, and a table of what became of them."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter

from .models import MODELS
from .rewriters import pairs
from .trial import verdict_of_model, verdict_of_rewriter


def main() -> int:
    """Print the table; 1 where a wrong pair was verified."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts")
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--pairs", type=int, default=200, help="wrong rewriters (default: 200)")
    wanted = parser.parse_args()
    backend, drawn = wanted.backend, list(pairs())
    drawn = random.Random(0).sample(drawn, min(wanted.pairs, len(drawn)))  # a choice
    found: dict[str, Counter[str]] = {}
    false = []
    for name, case in MODELS.items():
        _count(
            found, false, "models that look at their data", name, verdict_of_model(case, backend)
        )
    for pair in drawn:
        kind = "wrong rewriters, " + ("right at the example" if pair.hidden else "seen there")
        _count(found, false, kind, pair.name, verdict_of_rewriter(pair, backend))
    verdicts = ("mismatched", "unverified", "refused", "crashed", "verified")
    print(f"| {backend} | {' | '.join(verdicts)} |\n|{' --- |' * (len(verdicts) + 1)}")
    for kind, counts in found.items():
        print(f"| {kind} | {' | '.join(str(counts[v]) for v in verdicts)} |")
    print(*(f"verified, and wrong: {name}" for name in false), sep="\n")
    print(f"{sum(map(Counter.total, found.values())) - len(false)} passed, {len(false)} failed")
    return 1 if false else 0


def _count(
    found: dict[str, Counter[str]], false: list[str], kind: str, name: str, verdict: str
) -> None:
    found.setdefault(kind, Counter())[verdict] += 1
    if verdict == "verified":
        false.append(name)


if __name__ == "__main__":
    sys.exit(main())
