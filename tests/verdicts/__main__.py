"""``python -m tests.verdicts [WORD …]``: a table of the verdicts on wrong and right models.

Words select models by parts of their names; without words it writes the table in
docs/evidence/how-we-know.md. Exit code 1 if a wrong model is verified, or a right model is not.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.figures import table, write_figures

from .jobs import all_jobs, prepare, verdict_of_job

VERDICTS = ("mismatched", "unverified", "refused", "crashed", "verified")
HEAD = ["", "wrong", *VERDICTS, "right", "of these verified"]


def main() -> int:
    """Print the table; 1 if a wrong model was verified, or a right model was not."""
    words = sys.argv[1:]
    jobs = [
        (number, job)
        for number, job in enumerate(all_jobs())
        if not words or any(word in f"{job.kind}: {job.name}" for word in words)
    ]
    wrong: dict[str, Counter[str]] = {job.kind: Counter() for _, job in jobs}
    right: dict[str, Counter[str]] = {job.kind: Counter() for _, job in jobs}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=prepare) as pool:
        verdicts = pool.map(verdict_of_job, (number for number, _ in jobs))
        for (_, job), verdict in zip(jobs, verdicts, strict=True):
            (right if job.is_right else wrong)[job.kind][verdict] += 1
            if job.is_right is not (verdict == "verified"):
                about = "right" if job.is_right else "wrong"
                print(f"{verdict}, and {about}: {job.kind}: {job.name}", flush=True)
    rows = [
        [kind, of.total(), *(of[v] for v in VERDICTS), right[kind].total(), right[kind]["verified"]]
        for kind, of in wrong.items()
    ]
    rows.append(["**all**", *(sum(column) for column in list(zip(*rows, strict=True))[1:])])
    print(text := table(HEAD, rows))
    if not words:
        write_figures("verdicts", text)
    (_, all_wrong, *_, let_through, all_right, let) = rows[-1]
    print(f"verified and wrong: {let_through} of {all_wrong}")
    print(f"refused and right: {all_right - let} of {all_right}")
    failed = let_through + all_right - let
    print(f"{all_wrong + all_right - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
