"""The recorded results, and their page in the docs."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.zoo.page import markdown

from .models import CASES, DECODERS
from .trial import ENGINES, Row, Tokens

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "evidence" / "transformers-exports.md"

README = "../../packages/codebase-transformers/README.md"
TEXT = """\
# What transformers exports

transformers exports models by itself and compares nothing afterwards. {count} small models with
random weights are exported by its `OnnxExporter` with `dynamic=True`, and each folder is judged
with
[`enginebay exported`]({readme}#judge-what-transformers-exported):
each file by its module in PyTorch at the sizes that are open in it, and the three laws for all
files together. Models that generate are exported in parts, from prompts of which one is padded on
the left; *unpadded* is a Llama from prompts without padding.

`nox -s transformers-exports` tries all again, and fails if a verdict differs from this page;
`nox -s transformers-exports -- swin` tries one, `--record` writes this page.

Measured on {date} with {versions}.{waiting}

{table}

*Refused* is an error of the engine at a size that is open in the file. The sizes are those of the
last component; the largest is ten times the example's.

## What is wrong, and where

The first error of each component that is not verified, and each broken law. T5's files differ where
a row of the mask is empty: the exporter writes zeros there, and PyTorch computes the mean of the
values.

{errors}

## Tokens of decoders

`enginebay bundle` deploys a decoder as one artifact, and compares its tokens with those of
`model.generate`: each prompt alone, and all in a batch padded on the left. *Undecided* are prompts
at whose first differing token the gap of the two logits is below the tolerance.

{tokens}
"""


class Results(msgspec.Struct, kw_only=True):
    """All results by model, with their day and the versions that they depend on."""

    date: str = ""
    versions: dict[str, str] = {}
    rows: dict[str, Row] = {}
    tokens: dict[str, dict[str, Tokens]] = {}


def load() -> Results:
    """Return the recorded results."""
    found = RESULTS.read_bytes() if RESULTS.exists() else b"{}"
    return msgspec.json.decode(found, type=Results)


def record(results: Results) -> None:
    """Write the results and the page."""
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    PAGE.write_text(render(results), encoding="utf-8")


def verdict(row: Row, engine: str) -> str:
    """Return the verdict of a model on an engine: of its worst component, and of the laws."""
    if row.exported != "ok" or not row.components:
        return "refused"
    found = {each.verdict for each in row.components if each.backend == engine}
    worst = next(iter(sorted(found - {"verified"})), "verified")
    return "breaks a law" if worst == "verified" and row.breaches else worst


def render(results: Results) -> str:
    """Return the page."""
    rows, errors = [], []
    for name, row in results.rows.items():
        parts = list(dict.fromkeys(each.component for each in row.components))
        sizes = row.components[-1].sizes if row.components else ()
        label = f"{row.architecture}, unpadded" if name.endswith("unpadded") else row.architecture
        exported = ", ".join(parts) if row.exported == "ok" else "fails"
        verdicts = [verdict(row, engine) for engine in ENGINES]
        rows.append([label, exported, *verdicts, _cell("; ".join(sizes)) or "–"])
        lines = [row.exported] * (row.exported != "ok")
        lines += [f"{e.component} on {e.backend}: {e.error}" for e in row.components if e.error]
        errors += [f"- **{label}**: {_cell(line)}" for line in (*lines, *row.breaches)]
    tokens = [
        [name, *(_count(found.get(engine, Tokens(error="not tried"))) for engine in ENGINES)]
        for name, found in results.tokens.items()
    ]
    missing = [name for name in CASES if name not in results.rows]
    missing += [f"tokens of {name}" for name in DECODERS if name not in results.tokens]
    waiting = f" Not tried yet: {', '.join(missing)}; `-- --missing --record`." if missing else ""
    return TEXT.format(
        readme=README,
        waiting=waiting,
        count=len(results.rows),
        date=results.date,
        versions=", ".join(f"{name} {each}" for name, each in results.versions.items()),
        table=markdown(["model", "components", *ENGINES, "sizes tried"], rows),
        errors="\n".join(errors),
        tokens=markdown(["decoder", *ENGINES], tokens),
    )


def _count(tokens: Tokens) -> str:
    if tokens.error:
        return _cell(tokens.error)
    total = tokens.equal + tokens.undecided + tokens.wrong
    return f"{tokens.equal} equal, {tokens.undecided} undecided, {tokens.wrong} wrong of {total}"


def _cell(text: str) -> str:
    """Return a text that no renderer takes for markup."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
