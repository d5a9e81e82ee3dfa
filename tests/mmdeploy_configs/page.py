"""The recorded results, a file for each codebase, and their page in the docs."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec

from tests.zoo.page import markdown
from tests.zoo.results import installed

from .configs import CASES, CHECKOUT, codebase_of
from .trial import MEMORY, SECONDS, Outcome, Row

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "evidence" / "mmdeploy-configs.md"
#: The distributions of each codebase that a result depends on.
LIBRARIES = {
    "mmpretrain": "onedl-mmpretrain",
    "mmseg": "onedl-mmsegmentation",
    "mmdet": "onedl-mmdetection",
    "mmpose": "mmpose",
    "mmocr": "mmocr",
    "mmagic": "mmagic",
}

TEXT = """\
# MMDeploy's configs

MMDeploy has {count} configs that name an engine that runs here: ONNX Runtime, OpenVINO or ncnn. Its
configs for other engines are not counted. Each is given to `enginebay deploy MODEL --config FILE`
unchanged, once, with a small model of its codebase and random weights, in a process of its own with
{minutes} minutes and {memory} GiB.

**{good} of {count} deploy as they mean it**: the artifact is verified, and has the engine, the
precision, the operator set, the names, the dynamic axes, the sizes and the parts that the config
asks for. An output's axis that the config calls dynamic may have a fixed size: detectors return as
many rows for each image, and mark unused ones.

`nox -s mmdeploy-configs -- CHECKOUT` tries all again, and fails if an outcome differs from this
page; `-- CHECKOUT mmseg` tries those with a word in their path, `--record` writes this page.
CHECKOUT is a checkout of MMDeploy, which is neither installed nor copied:

```text
{checkout}
```

{counts}

*Otherwise* is verified, and not what the config asks for. *Mismatched*: the engine's outputs differ
from the model's. *Unverified*: agreement would prove nothing, because rounding alone decides, or
the outputs do not depend on the input. *Refused* is an error, *crashed* a process that ended, or
was ended at its limit. *No model*: nothing was deployed, for the cause below.

{tables}
## Not as they mean it, and why

The first line of what a user reads.

{causes}
"""


class Results(msgspec.Struct, kw_only=True):
    """The results of one codebase by config, with their day and the versions they depend on."""

    date: str = ""
    versions: dict[str, str] = {}
    rows: dict[str, Row] = {}


def load(codebase: str) -> Results:
    """Return the recorded results of a codebase."""
    path = HERE / "results" / f"{codebase}.json"
    found = path.read_bytes() if path.exists() else b"{}"
    return msgspec.json.decode(found, type=Results)


def load_all() -> dict[str, Results]:
    """Return the recorded results of every codebase of the list."""
    return {codebase: load(codebase) for codebase in dict.fromkeys(map(codebase_of, CASES))}


def record(codebase: str, results: Results) -> None:
    """Write the results of a codebase, with the installed versions, and the page."""
    engines = ("torch", "onnx", "onnxruntime", "openvino", "ncnn")
    results.versions = installed((LIBRARIES[codebase], "onedl-mmcv", "mmcv", *engines))
    results.rows = {config: results.rows[config] for config in CASES if config in results.rows}
    path = HERE / "results" / f"{codebase}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    PAGE.write_text(render(load_all()), encoding="utf-8")


def render(found: dict[str, Results]) -> str:
    """Return the page."""
    rows = {config: row for results in found.values() for config, row in results.rows.items()}
    good = sum(row.outcome == "verified" for row in rows.values())
    return TEXT.format(
        count=len(CASES),
        good=good,
        minutes=SECONDS // 60,
        memory=MEMORY >> 30,
        checkout=CHECKOUT,
        counts=_counts(rows),
        tables="".join(_table(name, results) for name, results in found.items() if results.rows),
        causes=_causes(rows),
    )


def _state(config: str, rows: dict[str, Row]) -> str:
    """Return the outcome of a config, and for one without an outcome, why it has none."""
    if config in rows:
        return rows[config].outcome
    return "not tried" if CASES[config].model else "no model"


def _counts(rows: dict[str, Row]) -> str:
    states = [*get_args(Outcome), "not tried", "no model"]
    states = [s for s in states if any(_state(config, rows) == s for config in CASES)]
    lines = []
    for codebase in dict.fromkeys(map(codebase_of, CASES)):
        here = [_state(config, rows) for config in CASES if codebase_of(config) == codebase]
        lines.append([codebase, str(len(here)), *(str(here.count(s) or "–") for s in states)])
    everything = [_state(config, rows) for config in CASES]
    lines.append(["all", str(len(CASES)), *(str(everything.count(s) or "–") for s in states)])
    return markdown(["codebase", "configs", *states], lines)


def _table(codebase: str, results: Results) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    lines = [
        [
            _plain(config.partition("/")[2]),
            f"`{row.model}`",
            row.outcome if row.outcome == "verified" else f"**{row.outcome}**",
            _plain(", ".join(f"{n} {'×'.join(map(str, d))}" for n, d in row.outputs.items())),
            f"{row.seconds:.0f} s, {row.memory:.1f} GiB",
        ]
        for config, row in results.rows.items()
    ]
    table = markdown(["config", "MODEL and flags", "", "outputs", "took"], lines)
    return f"## {codebase}\n\nMeasured on {results.date} with {versions}.\n\n{table}\n\n"


def _causes(rows: dict[str, Row]) -> str:
    """Return a list of the causes, each with its configs."""
    causes: dict[str, list[str]] = {}
    for config, case in CASES.items():
        row = rows.get(config)
        if row is None or row.outcome != "verified":
            text = case.cause or (f"{row.outcome}: {row.cause}" if row else "not tried yet")
            causes.setdefault(text, []).append(config)
    return "\n".join(
        f"- {_plain(cause)}: {', '.join(map(_plain, configs))}" for cause, configs in causes.items()
    )


def _plain(text: str) -> str:
    """Return a text that no renderer takes for markup."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
