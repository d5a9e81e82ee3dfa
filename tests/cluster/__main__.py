"""``python -m tests.cluster``: sixty cells of the zoo on four workers, of which two fail.

The program kills a worker and stops another in the middle. Then it removes a row and resumes the
sweep, plants a mismatch and a slowdown, and compares the time per task with bare Dask.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

import enginebay_lab as lab
from enginebay_lab.executors.dask import dask_executor
from enginebay_lab.sweeps.rows_file import ROWS_FILE, read_rows

from .processes import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

MODELS = (
    "bert",
    "roberta",
    "distilbert",
    "albert",
    "electra",
    "gpt2",
    "opt",
    "resnet",
    "vit",
    "esm",
)
MATRIX: dict[str, Any] = {
    "models": [f"tests.zoo.by_name:{name}" for name in MODELS],
    "backends": ["onnxruntime", "openvino", "ncnn"],
    "precisions": ["fp32", "fp16"],
    "timeout": 240,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the results; exit code 1 if a check fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--models", nargs="+", default=MATRIX["models"])
    args = parser.parse_args(argv)
    matrix = {**MATRIX, "models": args.models}
    with TemporaryDirectory(prefix="enginebay-cluster-") as name:
        folder = Path(name)
        with Cluster(folder / "dask", args.workers, ttl=5) as cluster:
            rows = disturbed(cluster, matrix, folder / "sweep")
        print(table(rows))
        wanted = len(matrix["models"]) * len(matrix["backends"]) * len(matrix["precisions"])
        return 0 if holds(rows, wanted, matrix, folder / "sweep") else 1


def disturbed(
    cluster: Cluster, matrix: dict[str, Any], output: Path, *, after: int = 8
) -> tuple[lab.SweepRow, ...]:
    """Run a sweep; after some rows, kill a worker and stop another."""

    def disturb() -> None:
        while not (output / ROWS_FILE).exists() or _lines(output) < after:
            time.sleep(0.2)
        cluster.workers[0].send_signal(signal.SIGKILL)
        cluster.workers[1].send_signal(signal.SIGSTOP)
        print("killed one worker and stopped another", file=sys.stderr)

    threading.Thread(target=disturb, daemon=True).start()
    start = time.perf_counter()
    with dask_executor(cluster.address) as executor:
        found = lab.sweep(matrix, executor, output=output, watch=_say)
    print(f"{len(found.rows)} rows in {time.perf_counter() - start:.0f} s")
    return found.rows


def holds(rows: Sequence[lab.SweepRow], wanted: int, matrix: dict[str, Any], output: Path) -> bool:
    """True if every cell has a single row, in the file too, and a resumed sweep has no work."""
    keys = [row.key for row in read_rows(output)]
    again = lab.sweep(matrix, output=output, resume=True)
    checks = {
        f"{wanted} rows": len(rows) == len(keys) == wanted,
        "none doubled": len(set(keys)) == len(keys),
        "the same rows after --resume": [row.key for row in again.rows] == [r.key for r in rows],
        "a row says that its worker was lost": any(row.attempts > 1 for row in rows),
    }
    for check, held in checks.items():
        print(f"{'ok' if held else 'FAILED'}: {check}")
    passed = sum(checks.values())
    print(f"{passed} passed, {len(checks) - passed} failed")
    return passed == len(checks)


def table(rows: Sequence[lab.SweepRow]) -> str:
    """Return the counts of verdicts, faults and attempts."""
    verdicts = Counter(row.verdict for row in rows)
    seconds = [row.seconds for row in rows]
    lines = [
        f"verdicts: {dict(verdicts)}",
        f"begun more than once: {sum(row.attempts > 1 for row in rows)}",
        f"seconds of a cell: median {statistics.median(seconds):.1f}, most {max(seconds):.1f}",
        f"bytes of a row: {sum(len(msgspec.json.encode(row)) for row in rows) // len(rows)}",
    ]
    lines += [
        f"{row.label}: {row.verdict} {row.fault} {row.reason}"
        for row in rows
        if row.verdict != "verified"
    ]
    return "\n".join(lines)


def _lines(output: Path) -> int:
    return (output / ROWS_FILE).read_bytes().count(b"\n")


def _say(step: Any) -> None:
    print(step.detail, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
