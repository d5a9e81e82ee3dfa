"""``python -m tests.operator_values [ENGINE …] [WORD …]``: operators on rarer values than usual.

Words select the operators by parts of their names; without words it writes the table in
docs/evidence/how-we-know.md. Exit code 1 if an engine is wrong without a report.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.figures import table, write_figures

from .deployed import deployed
from .operators import ENGINES, OPERATORS

FATES = ("right", "refused", "wrong, and told", "wrong in silence")


def main() -> int:
    """Print a row for each operator and engine."""
    engines = [word for word in sys.argv[1:] if word in ENGINES] or ENGINES
    words = [word for word in sys.argv[1:] if word not in ENGINES] or [""]
    fates = {engine: Counter[str]() for engine in engines}
    print("| operator | engine | verdict | wrong beyond the example | said |")
    print("| --- | --- | --- | --- | --- |")
    for operator in OPERATORS:
        if not any(word in operator.name for word in words):
            continue
        for engine in engines:
            found = deployed(operator, engine)
            fates[engine][found.fate] += 1
            wrong = "; ".join(f"{label}: {text}" for label, text in found.wrong.items())
            said = "**nothing**" if found.is_silent else "; ".join(found.words)[:120]
            print(f"| {operator} | {engine} | {found.verdict} | {wrong} | {said} |", flush=True)
    rows = ([engine, *(of[fate] for fate in FATES)] for engine, of in fates.items())
    print(text := table(["operators on", *FATES], rows))
    if len(sys.argv) == 1:
        write_figures("operator-values", text)
    silent = sum(of["wrong in silence"] for of in fates.values())
    print(f"{sum(map(Counter.total, fates.values())) - silent} passed, {silent} failed")
    return silent > 0


if __name__ == "__main__":
    sys.exit(main())
