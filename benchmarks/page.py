"""The page of the docs with every figure: a table and two plots."""

from __future__ import annotations

import platform
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.table import Budget

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
#: The plots: a file, a title, and the groups in it.
PLOTS = (
    ("benchmarks-peers.svg", "Time of a call: Enginebay to others (below 1 is faster)", {"peers"}),
    (
        "benchmarks-bare.svg",
        "Time compared with the bare engine, or a hand-written script (1 is equal)",
        {
            "wrapper",
            "providers",
            "openvino",
            "ncnn",
            "tensorrt",
            "deploy",
            "evaluate",
            "calibration",
            "decoder",
            "gpu",
        },
    ),
)
#: A row → why it may exceed its limit.
REASONS = {
    "wrapper: Add, 16 floats, torch": "Two conversions between torch and NumPy, which a caller "
    "writes by hand otherwise, take as long. With NumPy arrays they are not needed.",
    "wrapper: Add, 2^20 floats, NumPy": "Microseconds of Python after a call whose data fills the "
    "caches.",
    "openvino: Add, 16 floats": "The network takes so little that the lines of Python that check "
    "its inputs count: some microseconds, which a slower processor has more of.",
    "ncnn: tiny": "Microseconds of Python, for checks and for the copy of the outputs.",
    "tensorrt: ResNet-50: peak memory": "The builder hands the engine over in parts of 64 MB, "
    "30 MB more than an engine of 100 MB as a whole, and much less than a larger one. The rest is "
    "Python with NumPy and onnx.",
    "rewriting: enter and leave with 200 rewriters": "Those of the caller, and all of Enginebay's "
    "own, whose operators are asked what torch does with them. A deployment enters a few times.",
    "rewriting: enter and leave with one C function outside torch": "Only a search finds other "
    "names of a function in C: it reads each value of each loaded module.",
    "rewriting: a context around an export by torchscript": "The entry, and the calls of torch "
    "functions that a rewriter must see.",
    "deploy: ResNet-50: wall time": "The verdict on six samples, in the model and again in the "
    "engine; `--probes 0` compares the example alone, as the script does.",
    "deploy: ResNet-50: processor time": "As for the wall time; each run uses both cores.",
    "deploy: ResNet-50: peak memory": "The engine is tried in a process of its own while the "
    "process that exported still holds the model.",
    "evaluate: a digit": "A digit takes a fifth of a millisecond, of which checks and metrics in "
    "Python are a part.",
    "calibration: onnxruntime, an image": "The trial of the engine in a process of its own takes a "
    "third of such a short conversion, and the quantiser alone has none.",
    "calibration: openvino, an image": "As for ONNX Runtime.",
    "sweep: a cell, ResNet-50": "A cell checks and digests the model, and writes its row.",
}
#: The largest difference between two calls that are equally fast.
EQUAL = 0.05
#: Colours that are readable on light and dark pages.
STYLE = {
    "background": "transparent",
    "plot_background": "transparent",
    "foreground": "#808080",
    "foreground_strong": "#808080",
    "foreground_subtle": "#808080",
    "guide_stroke_color": "#80808055",
    "major_guide_stroke_color": "#80808099",
    "colors": ("#3f7fd9",),
    "font_family": "system-ui, sans-serif",
}


def write_page(rows: Sequence[Row | Budget], load: float) -> None:
    """Write ``docs/evidence/benchmarks.md`` and its plots."""
    for file, title, groups in PLOTS:
        shown = [row for row in rows if isinstance(row, Row) and row.group in groups]
        (EVIDENCE / file).write_bytes(_plot(title, shown))
    (EVIDENCE / "benchmarks.md").write_text("\n".join(_lines(rows, load)) + "\n", encoding="utf-8")


def _plot(title: str, rows: Sequence[Row]) -> bytes:
    import pygal
    from pygal.style import Style

    chart = pygal.HorizontalBar(
        style=Style(**STYLE),
        js=[],  # nothing is fetched
        title=title,
        show_legend=False,
        print_values=True,
        value_formatter=lambda ratio: f"{ratio:.2f}",
        width=900,
        height=90 + 34 * len(rows),
        range=(0, max([1.2, *(row.ratio for row in rows)])),
    )
    ordered = list(reversed(rows))  # the first is at the top
    chart.x_labels = [f"{row.what} ({row.against})" for row in ordered]
    chart.add("ratio", [row.ratio for row in ordered])
    rendered: bytes = chart.render()
    return rendered


def _lines(rows: Sequence[Row | Budget], load: float) -> Iterator[str]:
    yield "# Benchmarks\n"
    yield "Written by `nox -s benchmarks -- --page`, which measures each pair in turns, in one run,"
    yield "and fails if a limit is exceeded. The ratio is Enginebay's figure to the other's: the"
    yield "median of the turns' ratios, with its 95 % confidence interval. Each engine uses one"
    yield "thread."
    yield ""
    yield f"This run: {_machine(load)}. A machine with slower cores takes longer for Python than"
    yield "for arithmetic, so that ratios of microseconds differ between machines. A group that"
    yield "could not run there, such as `gpu` without a GPU, has no rows. `large`, which is run by"
    yield "name, has none either: [what a deployment needs of"
    yield "memory](../how-to/deployment-time.md#what-it-needs-of-memory) has its figures.\n"
    peers = [row for row in rows if isinstance(row, Row) and row.group == "peers"]
    yield from describe_peers((row.what, row.against, row.ratio) for row in peers)
    yield ""
    for file, title, _ in PLOTS:
        yield f"![{title}]({file})\n"
    yield "| group | what | against | ours | other | ratio | 95 % | limit |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for row in rows:
        cells = row.cells()
        limit = cells[-2] if row.holds else f"{cells[-2]}, missed"
        yield f"| {' | '.join((*cells[:-2], limit))} |"
    if missed := [row for row in rows if not row.holds]:
        yield "\nThe limits that this run missed:\n"
        yield "| what | why |"
        yield "|---|---|"
        for row in missed:
            what = f"{row.group}: {row.what}"
            yield f"| {what} | {REASONS.get(what, 'not known')} |"


def describe_peers(rows: Iterable[tuple[str, str, float]]) -> Iterator[str]:
    """Return a line for each model, other library and ratio: how many times as fast a call is."""
    for what, against, ratio in rows:
        times = 1 / ratio
        speed = f"{times:.2g} times as fast as" if abs(times - 1) > EQUAL else "as fast as"
        yield f"- {what}: a call is {speed} {against}."


def _machine(load: float) -> str:
    import os
    from importlib.metadata import version

    engines = ", ".join(f"{name} {version(name)}" for name in ("torch", "onnxruntime", "openvino"))
    return (
        f"{date.today().isoformat()}, {os.cpu_count()} cores ({platform.machine()}), load average "
        f"{load:.1f}, Python {platform.python_version()}, {engines}"
    )
