"""``python -m tests.known_bugs [WORD …]``: a table of every known bug, or of those with a word.

Without words it writes the table in docs/evidence/how-we-know.md.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

from tests.figures import table, write_figures

from .trial import ABSENT, BUGS, BUGS_BY_SOFTWARE, deploy_bug

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .trial import Outcome

HEAD = ["mistakes of", "there today", "planted", "refused", "module named", "avoided", "verified"]


def main() -> int:
    """Print the tables; 1 if a bug is verified, or a right model is not."""
    words = sys.argv[1:]
    wanted = [name for name in BUGS if not words or any(word in name for word in words)]
    found: dict[str, Outcome] = {}
    _row(("thread", "fault", "versions", "engine", "verdict", "named", "node", "without", "s"))
    _row(["---"] * 9)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for thread, outcome in zip(wanted, pool.map(deploy_bug, wanted), strict=True):
            found[thread] = outcome
            bug = BUGS[thread]
            mark = "" if outcome.keeps(bug) else "✗ "
            engine = " ".join(filter(None, (bug.backend, bug.exporter)))
            module, node = outcome.named
            named = f"{'✓' if outcome.names(bug) else '✗'} {module}" if module else ""
            cells = (f"{mark}{thread}", bug.fault, bug.versions, engine, outcome.verdict)
            _row((*cells, named, node, outcome.plain, f"{outcome.seconds:.0f}"))
    print(text := table(HEAD, _totals(found)))
    if not words:
        print(*(f"not here: {thread}: {reason}" for thread, reason in ABSENT.items()), sep="\n")
        write_figures("known-bugs", text)
    kept = sum(outcome.keeps(BUGS[thread]) for thread, outcome in found.items())
    print(f"{kept} passed, {len(found) - kept} failed")
    return kept < len(found)


def _totals(found: dict[str, Outcome]) -> Iterator[list[object]]:
    """Yield the number of bugs in each kind of software, by outcome."""
    for software, bugs in BUGS_BY_SOFTWARE.items():
        pairs = [(each, found[each.thread]) for each in bugs if each.thread in found]
        yield [
            software,
            sum(each.mistake is None for each, _ in pairs),
            sum(each.mistake is not None for each, _ in pairs),
            sum(outcome.verdict != "verified" for _, outcome in pairs),
            sum(outcome.names(each) for each, outcome in pairs),
            sum(outcome.verdict == "verified" and outcome.right for _, outcome in pairs),
            sum(outcome.verdict == "verified" and not outcome.right for _, outcome in pairs),
        ]


def _row(cells: Iterable[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
