"""The part of the zoo's page about models of real size, made from their results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.zoo.page import counts, every_model, reasons
from tests.zoo.results import Column

from .models import MODELS

if TYPE_CHECKING:
    from tests.zoo.results import Results

RESULTS = Path(__file__).parent / "results.json"
#: As a user deploys: without the name of an exporter.
COLUMNS = (Column("onnxruntime", None), Column("openvino", None), Column("ncnn", None))

TEXT = """
## Models of real size

{models} of {all} published architectures, each in its published size, with inputs of usual size.
`nox -s full-size` measures them, and writes this part of the page. `nox -s full-size -- --missing`
measures the rest. A model is added in a few lines of `tests/full_size/models.py`.

Measured on {date} with {versions}, on two cores with other work running.

{counts}

*Reference* is the time to compute the model's own outputs, for the example and the probes: the
maximum of the three deployments, in seconds. *Memory* is that of the largest process.

{table}
"""


def section(results: Results) -> str:
    """Return the part in Markdown."""
    cells = results.cells
    return TEXT.format(
        models=len({cell.model for cell in cells}),
        all=len(MODELS),
        date=results.date,
        versions=", ".join(f"{name} {number}" for name, number in results.versions.items()),
        counts=counts(cells, COLUMNS),
        table=every_model(cells, _families(results), COLUMNS, "size · reference · memory"),
    ) + reasons(cells).replace("## ", "### ")


def _families(results: Results) -> dict[str, str]:
    """Return each model's input size, seconds and memory."""
    found = {}
    for name, animal in MODELS.items():
        cells = [cell for cell in results.cells if cell.model == name]
        seconds = max((cell.reference or 0.0 for cell in cells), default=0.0)
        memory = max((cell.memory or 0.0 for cell in cells), default=0.0)
        found[name] = f"{animal.family} · {seconds:.0f} s · {memory:.1f} GiB"
    return found
