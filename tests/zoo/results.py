"""The result of each model on each backend by each exporter, stored as JSON."""

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
    """A backend and an exporter, a column of the page.

    Attributes:
        backend: The backend.
        exporter: The ONNX exporter; None for the choice of ``deploy``.
    """

    backend: str
    exporter: Literal["dynamo", "torchscript"] | None

    @property
    def title(self) -> str:
        """The heading on the page."""
        return f"{self.backend}, {self.exporter}" if self.exporter else self.backend


class Collection(NamedTuple):
    """Models that are measured together, and the files of their results.

    Attributes:
        models: The family or the batch of each model, by its name, in order.
        build: Makes a model and its example inputs from its name.
        columns: The backends and exporters of each model.
        limit: Seconds that one cell may take.
        results: The file of the results.
        page: The page in the docs.
        distributions: The packages that the figures depend on.
        render: Makes the page's text from the results.
        first: The file of each model's first results, which later results never replace; None if
            they are not stored.
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
    """Return the ``COLLECTION`` of a package: ``tests.zoo`` or ``tests.community_models``."""
    found: Collection = importlib.import_module(f"{package}.collection").COLLECTION
    return found


#: ncnn reads the result of torch.jit.trace, and ONNX only if tracing fails.
COLUMNS = (
    Column("onnxruntime", "dynamo"),
    Column("onnxruntime", "torchscript"),
    Column("openvino", "dynamo"),
    Column("openvino", "torchscript"),
    Column("ncnn", None),
    Column("tensorrt-rtx", "dynamo"),
    Column("tensorrt-rtx", "torchscript"),
)

#: The packages that the figures depend on.
DISTRIBUTIONS = (
    *("torch", "transformers", "onnx", "onnxruntime", "openvino", "ncnn", "pnnx"),
    "tensorrt-rtx-cu13-bindings",
)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a model on a backend by an exporter.

    Attributes:
        model: Its name in the zoo.
        column: The backend and the exporter.
        state: The verdict of ``deploy``; ``built`` if it is ``unverified`` only because the engine
            is for a GPU that this machine does not have; ``unsupported`` after one of Enginebay's
            errors; ``broken`` after any other error, which is a mistake of the zoo.
        worst: The largest absolute difference over all outputs, of the graph's if it was built;
            None without a comparison.
        seconds: From the model to the verdict.
        reference: The part of these seconds for the model's own outputs, for the example and the
            probes; None if the deployment ended with an error.
        memory: The GiB of the largest process so far that measured the model.
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
    """All cells, with their date and versions.

    Attributes:
        date: The day of the newest cell, in UTC.
        versions: The measured versions by distribution.
        cells: In the order of the zoo and of the columns.
    """

    date: str = ""
    versions: dict[str, str] = {}
    cells: list[Cell] = []

    def renew(self, versions: dict[str, str]) -> None:
        """Drop all cells if a version has changed: no page shows figures of two versions.

        Args:
            versions: The installed versions; packages that are not installed count as unchanged.
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
        """Replace older cells, and remove cells of models that the collection no longer has.

        Args:
            cells: The new cells.
            date: The day they were measured.
            models: The models of the collection, in order.
            columns: The backends and exporters, in order.
        """
        row = {name: place for place, name in enumerate(models)}
        known = {(cell.model, cell.column): cell for cell in (*self.cells, *cells)}
        kept = [c for c in known.values() if c.model in row and c.column in columns]
        self.cells = sorted(kept, key=lambda c: (row[c.model], columns.index(c.column)))
        self.date = date


def installed(distributions: Iterable[str] = DISTRIBUTIONS) -> dict[str, str]:
    """Return the versions of the installed packages that the figures depend on."""
    found = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def keep_first(results: Results, models: Collection) -> None:
    """Add the first results of models to the file that is never renewed.

    Args:
        results: All results; if a model could not be built, which is a mistake of the collection,
            its next result counts.
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
    """Return the stored results, or empty results if the file does not exist."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def save(results: Results, path: Path = RESULTS) -> None:
    """Write the results, indented, so that a diff shows changes line by line."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
