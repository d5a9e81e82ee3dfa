"""The page in the docs, made from the results and from each batch's first ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.zoo.page import counts, every_model, markdown, reasons
from tests.zoo.results import Column, load

from .models import MODELS

if TYPE_CHECKING:
    from tests.zoo.results import Cell, Results

#: As a user types it: no exporter is named.
COLUMNS = (Column("onnxruntime", None), Column("openvino", None), Column("ncnn", None))
#: Seconds that a cell may take.
LIMIT = 300
#: The first results of each model.
FIRST = Path(__file__).parent / "first.json"

TEXT = """\
# The wild zoo: {models} models of other packages

{models} models from the packages that people deploy from, in batches that nobody here had deployed
before they were measured: random weights, nothing downloaded, inputs as their users have them. Each
is deployed with `enginebay.deploy` and no word about how. `nox -s wild` measures them all again and
writes this page, `nox -s wild -- gcn gat --backend ncnn` measures a part; a model is added in a few
lines of `tests/wild/batches`. [The zoo](zoo.md) has architectures that are deployed every way.

Measured on {date} with {versions}.

## Verified at the first try

What was verified when a batch was deployed for the first time, before anything was done for it.
These figures are never measured again; a model that is added to a batch has its first ones too.
Nine are of a second run of the same code: the list was wrong about the weights or the operators of
openai-whisper, encodec, ssdlite320, tf_efficientnetv2_b0 and yolo11n-seg, and the four decoding
steps had counted as verified although their caches had become constants.
{waiting} models of the list have not been deployed yet: `nox -s wild -- --missing`.

{first}

## Now

{counts}

*Verified*: the engine gives what the PyTorch model gives, within the tolerance of fp32.
*Mismatched*: it runs and gives something else. *Unverified*: agreement would prove nothing, for
instance since the outputs are the same for all inputs. *Unsupported*: the deployment ends with an
error that says why. *Crashed*: a process went down, or a cell took more than {limit} seconds.

## Every model

The largest absolute difference over all outputs, and the seconds from the model to the verdict, on
two cores that other work shared.

{table}
"""


def render(results: Results, first: Path = FIRST) -> str:
    """The page, in Markdown."""
    cells = results.cells
    versions = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    return TEXT.format(
        models=len({cell.model for cell in cells}),
        date=results.date,
        versions=versions,
        waiting=len(MODELS.keys() - {cell.model for cell in cells}),
        first=_by_batch(load(first).cells),
        counts=counts(cells, COLUMNS),
        limit=LIMIT,
        table=every_model(cells, MODELS, COLUMNS, "batch"),
    ) + reasons(cells)


def _by_batch(cells: list[Cell]) -> str:
    """The share of each batch that each engine was verified on."""
    rows = [
        [batch, *_shares([cell for cell in cells if MODELS[cell.model] == batch])]
        for batch in dict.fromkeys(MODELS[cell.model] for cell in cells)
    ]
    rows.append(["**all**", *_shares(cells)])
    return markdown(["batch", "models", *(column.title for column in COLUMNS)], rows)


def _shares(cells: list[Cell]) -> list[str]:
    models = len({cell.model for cell in cells})
    found = [[c.state for c in cells if c.column == column] for column in COLUMNS]
    return [str(models), *(str(states.count("verified")) for states in found)]
