"""The collection of the zoo: models, columns, results and page."""

from __future__ import annotations

from pathlib import Path

from tests.full_size.page import RESULTS as FULL_SIZE, section

from .models import ZOO, build
from .page import render
from .results import COLUMNS, DISTRIBUTIONS, RESULTS, Collection, load

COLLECTION = Collection(
    models={name: animal.family for name, animal in ZOO.items()},
    build=build,
    columns=COLUMNS,
    limit=180,  # usually 2 to 20
    results=RESULTS,
    page=Path(__file__).parents[2] / "docs" / "evidence" / "zoo.md",
    distributions=DISTRIBUTIONS,
    render=lambda results: render(results) + section(load(FULL_SIZE)),
)
