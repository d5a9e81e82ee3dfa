"""The page in the docs, made from the results and from each batch's first results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.zoo.page import counts, every_model, markdown, reasons
from tests.zoo.results import Column, load

from .models import MODELS

if TYPE_CHECKING:
    from tests.zoo.results import Cell, Results

#: As a user deploys: without the name of an exporter.
COLUMNS = (Column("onnxruntime", None), Column("openvino", None), Column("ncnn", None))
#: Seconds that a cell may take.
LIMIT = 300
#: The packages that export, convert and run; the others have the models.
TOOLS = {"torch", "onnx", "onnxruntime", "openvino", "ncnn", "pnnx"}
#: The first results of each model.
FIRST = Path(__file__).parent / "first.json"

TEXT = """\
# Models outside the zoo: {models} models of other packages

{models} models from the packages that people deploy from, in batches. Before it was measured, no
model of a batch had been deployed with Enginebay. The weights are random, nothing is downloaded,
and the inputs are typical for the model. Each is deployed with `enginebay.deploy` without options.
`nox -s community-models` measures all models again and writes this page; `nox -s community-models
-- gcn gat --backend ncnn` measures a part. A model is added in a few lines of
`tests/community_models/batches`. [The zoo](zoo.md) has architectures that are deployed with each
exporter.

Measured on {date} with {engines}.

<details>
<summary>The versions of the {count} packages that have the models</summary>

{packages}

</details>

## Verified at the first try

The number of models that were verified when their batch was deployed for the first time, before
Enginebay was changed for any of them. These figures are never measured again; a model that is added
to a batch counts with its own first result. Nine results are from a second run of the same code:
the list had wrong weights or operators for openai-whisper, encodec, ssdlite320,
tf_efficientnetv2_b0 and yolo11n-seg, and the four decoding steps had counted as verified although
their caches had become constants. {waiting} models of the list have not been deployed yet: `nox -s
community-models -- --missing`.

{first}

## Verified today

{counts}

*Verified*: the engine's outputs equal those of the PyTorch model, within the tolerance of fp32.
*Mismatched*: the engine runs and its outputs differ. *Unverified*: agreement would prove nothing,
for example because the outputs are the same for all inputs. *Unsupported*: the deployment ends with
an error that contains the reason. *Crashed*: a process crashed, or a cell took more than {limit}
seconds.

## Every model

The largest absolute difference over all outputs, and the seconds from the model to the verdict, on
two cores with other work running.

{table}
"""


def render(results: Results, first: Path = FIRST) -> str:
    """Return the page in Markdown."""
    cells = results.cells
    versions = [f"{name} {number}" for name, number in results.versions.items()]
    engines = [text for text in versions if text.split()[0] in TOOLS]
    packages = [text for text in versions if text not in engines]
    return TEXT.format(
        models=len({cell.model for cell in cells}),
        date=results.date,
        engines=", ".join(engines),
        count=len(packages),
        packages=", ".join(packages),
        waiting=len(MODELS.keys() - {cell.model for cell in cells}),
        first=_by_batch(load(first).cells),
        counts=counts(cells, COLUMNS),
        limit=LIMIT,
        table=every_model(cells, MODELS, COLUMNS, "batch"),
    ) + reasons(cells)


def _by_batch(cells: list[Cell]) -> str:
    """Return a table of the verified models of each batch on each engine."""
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
