"""What came of each model on each backend by each exporter, kept as JSON."""

from __future__ import annotations

import importlib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

State: TypeAlias = Literal[
    "verified", "built", "mismatched", "unverified", "crashed", "unsupported", "broken"
]

RESULTS = Path(__file__).parent / "results.json"


class Column(NamedTuple):
    """A way to an engine.

    Attributes:
        backend: The engine.
        exporter: Which of the two to ONNX; None for what ``deploy`` chooses by itself.
    """

    backend: str
    exporter: Literal["dynamo", "torchscript"] | None

    @property
    def title(self) -> str:
        """What it is called on the page."""
        return f"{self.backend}, {self.exporter}" if self.exporter else self.backend


class Collection(NamedTuple):
    """Models that are measured together, and where what came of them is kept.

    Attributes:
        models: The family or the batch of each model, by its name, in order.
        build: Makes a model and its example inputs from its name.
        columns: The ways that each of them goes.
        limit: Seconds that one cell may take.
        results: The file of the results.
        page: The page in the docs.
        distributions: The packages that the figures depend on.
        render: Makes the page's text from the results.
        first: The file of each model's first results, which later ones never replace; None where
            these are not kept.
    """

    models: Mapping[str, str]
    build: Callable[[str], tuple[Any, Any]]
    columns: tuple[Column, ...]
    limit: int
    results: Path
    page: Path
    distributions: tuple[str, ...]
    render: Callable[[Results], str]
    first: Path | None = None


def collection(package: str) -> Collection:
    """The ``COLLECTION`` of a package: ``tests.zoo`` or ``tests.wild``."""
    found: Collection = importlib.import_module(f"{package}.collection").COLLECTION
    return found


#: ncnn reads what torch.jit.trace makes of a model, and ONNX only where that fails.
COLUMNS = (
    Column("onnxruntime", "dynamo"),
    Column("onnxruntime", "torchscript"),
    Column("openvino", "dynamo"),
    Column("openvino", "torchscript"),
    Column("ncnn", None),
    Column("tensorrt-rtx", "dynamo"),
    Column("tensorrt-rtx", "torchscript"),
)

#: What the figures depend on.
DISTRIBUTIONS = (
    *("torch", "transformers", "onnx", "onnxruntime", "openvino", "ncnn", "pnnx"),
    "tensorrt-rtx-cu13-bindings",
)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One model by one way.

    Attributes:
        model: Its name in the zoo.
        column: The backend and the exporter.
        state: The verdict of ``deploy``; ``built`` where it is ``unverified`` because the engine
            is for a GPU that is not here, and all that can be said here is good; ``unsupported``
            where it raised one of Enginebay's errors; ``broken`` where anything else went wrong,
            which is the zoo's own mistake.
        worst: The largest absolute difference over all outputs, of the graph's where it was built;
            None where nothing was compared.
        seconds: From the model to the verdict.
        reference: Of these, what the model's own outputs for the example and the probes took; None
            where the deployment ended with an error.
        memory: The GiB of the largest process up to then, of those that measured the model.
        via: The IR and the exporter that the deployment went through.
        reason: Why it is neither verified nor built, on one line.
    """

    model: str
    column: Column
    state: State
    worst: float | None = None
    seconds: float = 0.0
    reference: float | None = None
    memory: float | None = None
    via: str = ""
    reason: str = ""


class Results(msgspec.Struct, kw_only=True):
    """All cells, and what they were measured with.

    Attributes:
        date: The day of the newest of them, in UTC.
        versions: By distribution.
        cells: In the order of the zoo and of the columns.
    """

    date: str = ""
    versions: dict[str, str] = {}
    cells: list[Cell] = []

    def renew(self, versions: dict[str, str]) -> None:
        """Drop all cells where one of the versions is another: no page shows figures of both.

        Args:
            versions: Of what is installed now; what is not keeps its figures.
        """
        known = self.versions | versions
        if any(known[name] != number for name, number in self.versions.items()):
            self.cells = []
        self.versions = known

    def put(
        self,
        cells: Iterable[Cell],
        date: str,
        models: Iterable[str],
        columns: tuple[Column, ...] = COLUMNS,
    ) -> None:
        """Add cells in the place of older ones; what the collection has no longer goes.

        Args:
            cells: The new cells.
            date: The day they were measured.
            models: The collection's, in order.
            columns: The ways that they go, in order.
        """
        row = {name: place for place, name in enumerate(models)}
        known = {(cell.model, cell.column): cell for cell in (*self.cells, *cells)}
        kept = [c for c in known.values() if c.model in row and c.column in columns]
        self.cells = sorted(kept, key=lambda c: (row[c.model], columns.index(c.column)))
        self.date = date


def installed(distributions: Iterable[str] = DISTRIBUTIONS) -> dict[str, str]:
    """The versions of what the figures depend on, as far as it is there."""
    found = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def keep_first(results: Results, models: Collection) -> None:
    """Add what was measured for the first time to the file that is never renewed.

    Args:
        results: All results; of what could not be built, which is the collection's mistake, the
            next one counts.
        models: The collection.
    """
    if models.first is None:
        return
    first = load(models.first)
    new = [cell for cell in results.cells if cell.state != "broken"]
    first.put([*new, *first.cells], first.date or results.date, models.models, models.columns)
    first.versions = first.versions or results.versions
    save(first, models.first)


def load(path: Path = RESULTS) -> Results:
    """The results so far; an empty set where there are none."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def save(results: Results, path: Path = RESULTS) -> None:
    """Write them, in a form that shows changes line by line."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
