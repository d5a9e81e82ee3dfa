"""The page in the docs, made from the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from .models import ZOO
from .results import COLUMNS, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .results import Cell, Column, Results

#: The signs of the states without a reason in the table of all models.
GOOD: dict[State, str] = {"verified": "✓", "built": "built"}

TEXT = """\
# The zoo: {models} architectures of transformers

{models} small architectures from [transformers](https://github.com/huggingface/transformers), with
random weights and no downloads, deployed with `enginebay.deploy` in fp32. `nox -s zoo` measures all
of them again and writes this page; `nox -s zoo -- vit bert --backend ncnn` measures a part. A model
is added in a few lines of `tests/zoo/models.py`.

Measured on {date} with {versions}.

## Totals

{counts}

*Verified*: the engine's outputs equal those of the PyTorch model, within the tolerance of fp32.
*Built*: the engine is for a GPU of compute capability 8.9, and was parsed and built on a machine
without a GPU. ONNX Runtime ran its graph, and the outputs equal the model's. That is not a verdict
on the engine. *Mismatched*: the engine runs and its outputs differ. *Unsupported*: the deployment
ends with an error that contains the reason. *Crashed*: a process crashed or did not end in time.

`dynamo` and `torchscript` are torch's two exporters to ONNX. By default `deploy` uses `dynamo` and,
if that fails, `torchscript`. For ncnn it uses a trace and, if that fails, ONNX.

## Every model

The largest absolute difference over all outputs, whose values are of order 1, and the seconds from
the model to the verdict.

{table}
"""

REST = """
## Neither verified nor built, and why

{table}
"""

OTHER = """
## Deployed with a different IR

Verified or built, but not with the exporter in the heading: that exporter failed, and the backend's
next IR was used.

{table}
"""


def render(results: Results) -> str:
    """Return the page in Markdown."""
    cells = results.cells
    versions = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    page = TEXT.format(
        models=len({cell.model for cell in cells}),
        date=results.date,
        versions=versions,
        counts=counts(cells),
        table=every_model(cells, {name: animal.family for name, animal in ZOO.items()}),
    )
    page += reasons(cells)
    other = [[c.model, c.column.title, c.via] for c in cells if _went_another_way(c)]
    if other:
        page += OTHER.format(table=markdown(["model", "way", "through"], other))
    return page


def reasons(cells: list[Cell]) -> str:
    """Return the part about cells that are neither verified nor built; empty if all are."""
    rest = [
        [cell.model, cell.column.title, cell.state, _escaped(cell.reason)]
        for cell in cells
        if cell.state not in GOOD
    ]
    return REST.format(table=markdown(["model", "way", "", "why"], rest)) if rest else ""


def counts(cells: list[Cell], columns: tuple[Column, ...] = COLUMNS) -> str:
    """Return a table of the number of cells in each state, by column."""
    seen = {cell.state for cell in cells} | {"verified"}
    states = [state for state in get_args(State) if state in seen]
    rows = []
    for column in columns:
        here = [cell.state for cell in cells if cell.column == column]
        rows.append([column.title, *(str(here.count(s)) for s in states), str(len(here))])
    return markdown(["", *states, "models"], rows)


def every_model(
    cells: list[Cell],
    families: Mapping[str, str],
    columns: tuple[Column, ...] = COLUMNS,
    heading: str = "family",
) -> str:
    """Return a table with a row for each model.

    Args:
        cells: The results.
        families: The family of each model.
        columns: The backends and exporters.
        heading: The heading of the families.
    """
    found = {(cell.model, cell.column): cell for cell in cells}
    names = dict.fromkeys(cell.model for cell in cells)
    rows = [
        [name, families[name], *(_shown(found.get((name, column))) for column in columns)]
        for name in names
    ]
    return markdown(["model", heading, *(column.title for column in columns)], rows)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    mark = GOOD.get(cell.state) or f"**{cell.state}**"
    worst = "" if cell.worst is None else f" {cell.worst:.0e},"
    return f"{mark}{worst} {cell.seconds:.0f} s"


def _went_another_way(cell: Cell) -> bool:
    usual = f"onnx by torch.onnx {cell.column.exporter}"
    return cell.state in GOOD and cell.column.exporter is not None and cell.via != usual


def _escaped(text: str) -> str:
    """Return a text for a cell of a table."""
    short = text if len(text) <= 240 else f"{text[:239]}…"
    return short.replace("|", "\\|").replace("<", "&lt;")


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
