"""``python -m tests.zoo``: measure the zoo, or a part of it, and write the page."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .cells import measure_model
from .models import ZOO
from .page import PAGE, render
from .results import COLUMNS, RESULTS, installed, load, save

if TYPE_CHECKING:
    from .results import Cell, Column, Results


def main() -> int:
    """Measure what was asked for, keep it, and write the page."""
    wanted = _arguments()
    results = load()
    results.renew(installed())
    work = _work(wanted, results)
    start = time.perf_counter()
    with ThreadPoolExecutor(wanted.jobs) as pool:
        running = [pool.submit(measure_model, *item) for item in work.items()]
        for number, done in enumerate(as_completed(running), 1):
            cells = done.result()
            results.put(cells, datetime.now(UTC).date().isoformat(), ZOO)
            save(results)
            print(f"[{number}/{len(running)}] {_told(cells)}", flush=True)
    PAGE.write_text(render(results))
    print(f"{RESULTS}\n{PAGE}\n{(time.perf_counter() - start) / 60:.1f} minutes")
    return any(cell.state == "broken" for cell in results.cells)


def _work(wanted: argparse.Namespace, results: Results) -> dict[str, list[Column]]:
    """The columns to measure, by model."""
    there = {(cell.model, cell.column) for cell in results.cells} if wanted.missing else set()
    columns = [
        column
        for column in COLUMNS
        if wanted.backend in (None, column.backend) and wanted.exporter in (None, column.exporter)
    ]
    work = {
        model: [column for column in columns if (model, column) not in there]
        for model in wanted.models or ZOO
    }
    return {model: left for model, left in work.items() if left}


def _told(cells: list[Cell]) -> str:
    told = (f"{cell.column.title}: {cell.state} in {cell.seconds:.0f} s" for cell in cells)
    return f"{cells[0].model} · {' · '.join(told)}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nox -s zoo --", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="by default all of them")
    parser.add_argument("--backend", choices=sorted({column.backend for column in COLUMNS}))
    parser.add_argument("--exporter", choices=["dynamo", "torchscript"])
    parser.add_argument("--missing", action="store_true", help="only what has no result yet")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time; by default 2")
    wanted = parser.parse_args()
    if unknown := [name for name in wanted.models if name not in ZOO]:
        parser.error(f"no model '{unknown[0]}' in the zoo; it has {', '.join(ZOO)}")
    return wanted


if __name__ == "__main__":
    sys.exit(main())
