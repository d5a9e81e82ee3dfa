"""``python -m tests.zoo``: measure all or some models of the zoo, and write the page.

``python -m tests.community_models`` does the same with the models of its collection.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .cells import measure_model
from .results import collection, installed, keep_first, load, save

if TYPE_CHECKING:
    from .results import Cell, Collection, Column, Results


def main(package: str = "tests.zoo") -> int:
    """Measure the requested models, store the results, and write the page.

    Args:
        package: The package of the collection of models.
    """
    models = collection(package)
    wanted = _arguments(models, package.rpartition(".")[2].replace("_", "-"))
    results = load(models.results)
    results.renew(installed(models.distributions))
    work = _work(wanted, models, results)
    start = time.perf_counter()
    with ThreadPoolExecutor(wanted.jobs) as pool:
        running = [
            pool.submit(measure_model, model, columns, package=package)
            for model, columns in work.items()
        ]
        for number, done in enumerate(as_completed(running), 1):
            cells = done.result()
            today = datetime.now(UTC).date().isoformat()
            results.put(cells, today, models.models, models.columns)
            save(results, models.results)
            keep_first(results, models)
            print(f"[{number}/{len(running)}] {_line(cells)}", flush=True)
    models.page.write_text(models.render(results))
    minutes = (time.perf_counter() - start) / 60
    print(f"{models.results}\n{models.page}\n{minutes:.1f} minutes")
    broken = sum(cell.state == "broken" for cell in results.cells)
    print(f"{len(results.cells) - broken} passed, {broken} failed")
    return broken > 0


def _work(
    wanted: argparse.Namespace, models: Collection, results: Results
) -> dict[str, list[Column]]:
    """Return the columns to measure, by model."""
    there = {(cell.model, cell.column) for cell in results.cells} if wanted.missing else set()
    columns = [
        column
        for column in models.columns
        if wanted.backend in (None, column.backend) and wanted.exporter in (None, column.exporter)
    ]
    work = {
        model: [column for column in columns if (model, column) not in there]
        for model in wanted.models or models.models
    }
    return {model: left for model, left in work.items() if left}


def _line(cells: list[Cell]) -> str:
    columns = (f"{cell.column.title}: {cell.state} in {cell.seconds:.0f} s" for cell in cells)
    return f"{cells[0].model} · {' · '.join(columns)}"


def _arguments(models: Collection, session: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"nox -s {session} --", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all models")
    parser.add_argument("--backend", choices=sorted({column.backend for column in models.columns}))
    parser.add_argument("--exporter", choices=["dynamo", "torchscript"])
    parser.add_argument(
        "--missing", action="store_true", help="only models and columns without a result"
    )
    parser.add_argument("--jobs", type=int, default=2, help="models at a time; by default 2")
    wanted = parser.parse_args()
    if unknown := [name for name in wanted.models if name not in models.models]:
        known = ", ".join(models.models)
        parser.error(f"no model '{unknown[0]}' in the {session} collection; it has {known}")
    return wanted


if __name__ == "__main__":
    sys.exit(main())
