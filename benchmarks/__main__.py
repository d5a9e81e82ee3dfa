"""``python -m benchmarks [GROUP …] [--json] [--page]``: exit code 1 over a limit."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.table import Budget, Row, table

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Each group is a module of this package, whose ``run()`` returns rows, or names that end with a
#: unit, figures and limits.
GROUPS = (
    *("wrapper", "providers", "peers", "openvino", "ncnn", "tensorrt", "startup"),
    *("rewriting", "deploy", "evaluate", "calibration", "sweep", "decoder", "gpu"),
)

#: Groups that run only when they are named: they take tens of gigabytes.
LARGE_GROUPS = ("large",)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the chosen groups and print one table."""
    known = (*GROUPS, *LARGE_GROUPS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "groups",
        nargs="*",
        metavar="GROUP",
        help=f"of {', '.join(known)}; all but {', '.join(LARGE_GROUPS)}",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--page", action="store_true", help="write docs/evidence/benchmarks.md too")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.groups if name not in known]:
        parser.error(f"'{unknown[0]}' is not a group; wanted {', '.join(known)}")
    rows = _measure(args.groups or GROUPS)
    load = os.getloadavg()[0]
    if args.page:
        from benchmarks.page import write_page

        write_page(rows, load)
    if args.json:
        document = {"schema": 1, "load": load, "rows": [row.to_json() for row in rows]}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(table(rows))
        print(f"\nload average {load:.1f} on {os.cpu_count()} cores; the ratio is ours to bare")
    return 0 if all(row.holds for row in rows) else 1


def _measure(groups: Sequence[str]) -> list[Row | Budget]:
    if len(groups) > 1:  # each in a process of its own, without what the others have imported
        return [row for group in groups for row in _measure_elsewhere(group)]
    (group,) = groups
    rows = []
    for found in import_module(f"benchmarks.{group}").run():
        row = found if isinstance(found, Row) else _budget(group, *found)
        print("  ".join(filter(None, row.cells())), file=sys.stderr)
        rows.append(row)
    return rows


def _measure_elsewhere(group: str) -> list[Row | Budget]:
    command = (sys.executable, "-m", "benchmarks", group, "--json")
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    # A native library may have printed before.
    _, start, rest = ran.stdout.partition(b"{\n")
    if not start:  # an exception, whose traceback is on stderr
        raise SystemExit(ran.returncode)
    rows = json.loads(start + rest)["rows"]
    for row in rows:
        del row["holds"]
    return [Row(**row) if "bare" in row else Budget(**row) for row in rows]


def _budget(group: str, name: str, measured: float, limit: float) -> Budget:
    """Return a figure whose name ends with its unit."""
    what, _, unit = name.rpartition(", ")
    return Budget(group, what, measured, unit, limit)


if __name__ == "__main__":
    sys.exit(main())
