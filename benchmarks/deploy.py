"""``enginebay deploy`` against a script that exports, loads, runs and compares by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from benchmarks.processes import cost, peak_memory
from benchmarks.startup import COMMAND
from benchmarks.table import Row
from benchmarks.turns import paired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Command = Callable[[str, str], tuple[str, ...]]

MODELS = Path(__file__).with_name("models.py")
TURNS = 5
BY_HAND = "a script by hand"

Figure = TypeVar("Figure")


def run() -> Iterator[Row]:
    """Measure time and memory of deployments, then the memory of a model of a gigabyte."""
    yield from _times("five layers", _deploy, _script, "five_layers", wall=1.05, processor=1.1)
    yield from _times("ResNet-50", _deploy, _script, "resnet50", wall=1.03, processor=1.1)
    # The export, which the preview asks each engine about, is most of a small deployment.
    yield from _times("preview of two engines", _preview, _deploy, "five_layers", processor=1.1)
    ours = min(_in_folder(_deploy, "resnet50", peak_memory) for _ in range(2))
    bare = min(_in_folder(_script, "resnet50", peak_memory) for _ in range(2))
    yield _row("ResNet-50: peak memory", BY_HAND, ours, bare, "MB", 1.2)
    ours = _in_folder(_deploy, "linear_stack", peak_memory)
    yield _row("1 GB of Linear: peak memory", "its weights", ours, linear_bytes(), "MB", 1.5)


def linear_bytes() -> int:
    """Return the size of the large model's weights; torch is imported only here."""
    from benchmarks.models import LINEAR_BYTES

    return LINEAR_BYTES


def _times(what: str, ours: Command, bare: Command, model: str, **limits: float) -> Iterator[Row]:
    """Yield wall time, and processor time, which depends far less on other processes.

    The first pair is not counted: it fills the disk's cache.
    """
    pairs = [
        (_in_folder(ours, model, cost), _in_folder(bare, model, cost)) for _ in range(1 + TURNS)
    ]
    against = BY_HAND if bare is _script else "one deployment"
    for kind, limit in limits.items():
        found = paired([(getattr(mine, kind), getattr(theirs, kind)) for mine, theirs in pairs[1:]])
        yield Row.of("deploy", f"{what}: {kind} time", against, found, "s", limit)


def _row(what: str, against: str, ours: float, bare: float, unit: str, limit: float) -> Row:
    return Row("deploy", what, against, ours, bare, unit, ours / bare, limit)


def _in_folder(
    command: Command,
    model: str,
    measure: Callable[[tuple[str, ...]], Figure],
) -> Figure:
    with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
        return measure(command(model, folder))


def _deploy(model: str, folder: str) -> tuple[str, ...]:
    work_dir = ("--work-dir", f"{folder}/artifact")
    return (*COMMAND, "deploy", f"{MODELS}:{model}", "--backend", "onnxruntime", *work_dir)


def _preview(model: str, _folder: str) -> tuple[str, ...]:
    return (*COMMAND, "preview", f"{MODELS}:{model}", "--backend", "onnxruntime,openvino")


def _script(model: str, folder: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "benchmarks.by_hand", model, folder)
