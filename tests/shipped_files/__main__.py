"""``python -m tests.shipped_files [WORD …] [--missing] [--record]``: deploy the files, or some.

Exit code 1 if a verdict differs from the recorded one, or breaks a rule that holds for all.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from tests.zoo.results import installed

from .files import FILES, fetch
from .page import Results, broken_rules, load, record
from .trial import try_file

VERSIONS = ("torch", "onnx", "onnxruntime", "openvino", "ncnn", "pnnx", "scikit-learn", "skl2onnx")


def main() -> int:
    """Deploy the files, print what differs, and record the results if asked to."""
    parser = argparse.ArgumentParser(prog="nox -s shipped-files --", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="parts of names; default: all")
    parser.add_argument("--record", action="store_true", help="write the results and the page")
    parser.add_argument("--missing", action="store_true", help="only files without a result")
    wanted = parser.parse_args()
    names = [n for n in FILES if not wanted.words or any(word in n for word in wanted.words)]
    names = [n for n in names if not (wanted.missing and n in load().rows)]
    fetch(names)
    recorded, wrong, count = load(), [], 0
    results = Results(date=datetime.now(UTC).date().isoformat(), versions=installed(VERSIONS))
    rows = dict(recorded.rows)
    with ThreadPoolExecutor(2) as pool:
        for name, row in zip(names, pool.map(try_file, names), strict=True):
            before = recorded.rows[name].results if name in recorded.rows else {}
            for key, result in row.results.items():
                count += 1
                print(f"{name} · {key}: {result.verdict} {result.off} {result.said}", flush=True)
                if key in before and before[key].verdict != result.verdict:
                    was = before[key].verdict
                    wrong.append(f"{name} on {key}: {result.verdict}, and {was} as recorded")
            rows[name] = row
            results.rows = {each: rows[each] for each in FILES if each in rows}
            if wanted.record:
                record(results)
    wrong += broken_rules(results)
    print(*wrong, sep="\n")
    print(f"{count - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
