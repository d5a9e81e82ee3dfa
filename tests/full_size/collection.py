"""The collection of models of real size: columns, results and page."""

from __future__ import annotations

from tests.zoo.collection import COLLECTION as ZOO
from tests.zoo.page import render
from tests.zoo.results import load

from .models import MODELS, build
from .page import COLUMNS, RESULTS, section

COLLECTION = ZOO._replace(
    models={name: animal.family for name, animal in MODELS.items()},
    build=build,
    columns=COLUMNS,
    limit=600,
    results=RESULTS,
    distributions=tuple(each for each in ZOO.distributions if "tensorrt" not in each),
    render=lambda results: render(load(ZOO.results)) + section(results),
)
