"""``python -m tests.verdicts [WORD …]``: a table of the verdicts on wrong and right models.

Words select models by parts of their names; without words it writes the table in
docs/evidence/how-we-know.md, and removes what is caught by now from known.json. Exit code 1 if a
wrong model is verified without a word, or a right model is not, and known.json does not name it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.figures import table, write_figures

from .jobs import KNOWN, all_jobs, known, prepare, timed_verdict_of_job

VERDICTS = ("mismatched", "unverified", "refused", "crashed", "told", "verified")
#: Verdicts on right models: an engine may differ if one line names the cause and its place.
GOOD = ("verified", "told")
HEAD = ["", "wrong", *VERDICTS, "right", "of these verified or told", "seconds"]


def main() -> int:
    """Print the table; 1 if a wrong model was verified, or a right model was not."""
    words = sys.argv[1:]
    jobs = [
        (number, job)
        for number, job in enumerate(all_jobs())
        if not words or any(word in job.title for word in words)
    ]
    wrong: dict[str, Counter[str]] = {job.kind: Counter() for _, job in jobs}
    right: dict[str, Counter[str]] = {job.kind: Counter() for _, job in jobs}
    seconds: Counter[str] = Counter()
    expected = known()
    found: dict[str, str] = {}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=prepare) as pool:
        results = pool.map(timed_verdict_of_job, (number for number, _ in jobs))
        for (_, job), (verdict, duration) in zip(jobs, results, strict=True):
            (right if job.is_right else wrong)[job.kind][verdict] += 1
            seconds[job.kind] += duration
            if (verdict not in GOOD) if job.is_right else (verdict == "verified"):
                found[job.title] = verdict
                about = "right" if job.is_right else "wrong"
                mark = ", as known" if job.title in expected else ""
                print(f"{verdict}, and {about}{mark}: {job.title}", flush=True)
            elif job.title in expected:
                print(f"no longer {expected[job.title]}: {job.title}", flush=True)
    rows = [
        [
            *(kind, of.total(), *(of[verdict] for verdict in VERDICTS)),
            *(right[kind].total(), sum(right[kind][verdict] for verdict in GOOD)),
            round(seconds[kind]),
        ]
        for kind, of in wrong.items()
    ]
    rows.append(["**all**", *(sum(column) for column in list(zip(*rows, strict=True))[1:])])
    print(text := table(HEAD, rows))
    if not words:
        write_figures("verdicts", text)
        kept = {title: verdict for title, verdict in found.items() if title in expected}
        KNOWN.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
    (_, all_wrong, *_, let_through, all_right, let, _) = rows[-1]
    print(f"verified and wrong: {let_through} of {all_wrong}")
    print(f"refused and right: {all_right - let} of {all_right}")
    failed = sum(title not in expected for title in found)
    print(f"{all_wrong + all_right - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
