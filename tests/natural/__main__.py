"""``python -m tests.natural [ENGINE …] [WORD …]``: operators that are wrong in silence.

Words choose the operators with one of them in their names. Exit code 1 where one is silent.
"""

from __future__ import annotations

import sys

from .deployed import deployed
from .operators import ENGINES, OPERATORS


def main() -> int:
    """Print a row for each operator and engine."""
    engines = [word for word in sys.argv[1:] if word in ENGINES] or ENGINES
    words = [word for word in sys.argv[1:] if word not in ENGINES] or [""]
    silent = count = 0
    print("| operator | engine | verdict | wrong beyond the example | said |")
    print("| --- | --- | --- | --- | --- |")
    for operator in OPERATORS:
        if not any(word in operator.name for word in words):
            continue
        for engine in engines:
            found = deployed(operator, engine)
            silent, count = silent + found.is_silent, count + 1
            wrong = "; ".join(f"{label}: {text}" for label, text in found.wrong.items())
            said = "**nothing**" if found.is_silent else "; ".join(found.words)[:120]
            print(f"| {operator} | {engine} | {found.verdict} | {wrong} | {said} |", flush=True)
    print(f"{count - silent} passed, {silent} failed")
    return silent > 0


if __name__ == "__main__":
    sys.exit(main())
