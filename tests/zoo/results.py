"""What came of each model on each backend by each exporter, kept as JSON."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        via: The IR and the exporter that the deployment went through.
        reason: Why it is neither verified nor built, on one line.
    """

    model: str
    column: Column
    state: State
    worst: float | None = None
    seconds: float = 0.0
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

    def put(self, cells: Iterable[Cell], date: str, models: Iterable[str]) -> None:
        """Add cells in the place of older ones; what the zoo has no longer goes.

        Args:
            cells: The new cells.
            date: The day they were measured.
            models: The zoo, in order.
        """
        row = {name: place for place, name in enumerate(models)}
        known = {(cell.model, cell.column): cell for cell in (*self.cells, *cells)}
        kept = [c for c in known.values() if c.model in row and c.column in COLUMNS]
        self.cells = sorted(kept, key=lambda c: (row[c.model], COLUMNS.index(c.column)))
        self.date = date


def installed() -> dict[str, str]:
    """The versions of what the figures depend on, as far as it is there."""
    found = {}
    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def load(path: Path = RESULTS) -> Results:
    """The results so far; an empty set where there are none."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def save(results: Results, path: Path = RESULTS) -> None:
    """Write them, in a form that shows changes line by line."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
