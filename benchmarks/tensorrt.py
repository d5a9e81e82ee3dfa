"""TensorRT for RTX's builder through Enginebay and alone, which needs no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import enginebay as eb
from benchmarks import models
from benchmarks.processes import cost, peak_memory
from benchmarks.startup import COMMAND
from benchmarks.table import Row
from benchmarks.turns import paired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

SIDES = {"bare": "the bare builder", "polygraphy": "Polygraphy"}
BY_HAND = "a script by hand"
#: Names, models, turns, and the limit of a build's ratio. Writing the plan to the disk in pieces
#: reduces BERT's peak, and takes a twentieth of the time of a short build.
CASES = (
    ("ResNet-50", models.resnet50, 12, 1.15),
    ("BERT-base", models.bert_base, 6, 1.1),
)
#: Turns of the commands, whose start and imports take longer than the build.
COMMANDS = 3


def run() -> Iterator[Row]:
    """Measure the time of a build, the time of the command around it, and the memory of both."""
    if find_spec("tensorrt_rtx_bindings") is None:
        print("tensorrt: TensorRT for RTX is not installed, and was not measured", file=sys.stderr)
        return
    with TemporaryDirectory(prefix="enginebay-benchmark-") as name:
        folder = Path(name)
        small = _exported(models.digits, folder / "small.onnx")
        for what, model, turns, limit in CASES:
            path = _exported(model, folder / f"{what}.onnx")
            yield from _times(what, (small, path), turns, "bare", limit)
            if find_spec("polygraphy") is not None:
                yield from _times(what, (small, path), turns // 2, "polygraphy", limit)
            yield from _whole(what, path)
        large = _exported(models.linear_stack, folder / "large.onnx")
        memory = _memory("1 GB of Linear: peak memory", large, 1.05)
        yield memory
        yield _row(memory.what, "its weights", memory.ours, models.LINEAR_BYTES, 3)


def _exported(model: Callable[[], tuple[nn.Module, Tensor]], path: Path) -> Path:
    return eb.export(*model(), path=path, options=eb.ExportOptions(ir="onnx")).path


def _times(
    what: str, files: tuple[Path, ...], turns: int, side: str, limit: float
) -> Iterator[Row]:
    """Yield wall time, and processor time, which depends far less on other processes."""
    pairs = [(_build("ours", *files), _build(side, *files)) for _ in range(1 + turns)]
    for number, kind in enumerate(("wall", "processor")):
        found = paired([(mine[number], theirs[number]) for mine, theirs in pairs[1:]])
        yield Row.of("tensorrt", f"{what}: {kind} time of a build", SIDES[side], found, "s", limit)


def _build(side: str, *onnx_files: Path) -> list[float]:
    printed = subprocess.run(_builds(side, *onnx_files), stdout=subprocess.PIPE, check=True).stdout
    taken: list[float] = json.loads(printed.splitlines()[-1])  # Polygraphy prints its settings
    return taken


def _builds(side: str, *onnx_files: Path) -> tuple[str, ...]:
    program = (sys.executable, "-m", "benchmarks.tensorrt_build", side)
    return (*program, str(onnx_files[0].parent), *map(str, onnx_files))


def _whole(what: str, path: Path) -> Iterator[Row]:
    """The command, with its imports, checks, digests and manifest."""
    pairs = [(cost(_convert(path)), cost(_builds("bare", path))) for _ in range(1 + COMMANDS)]
    found = paired([(mine.wall, theirs.wall) for mine, theirs in pairs[1:]])
    yield Row.of("tensorrt", f"{what}: enginebay convert", BY_HAND, found, "s", 3)
    yield _memory(f"{what}: peak memory", path, 1.2)


def _memory(what: str, path: Path, limit: float) -> Row:
    ours, bare = peak_memory(_convert(path)), peak_memory(_builds("bare", path))
    return _row(what, BY_HAND, ours, bare, limit)


def _row(what: str, against: str, ours: float, bare: float, limit: float) -> Row:
    return Row("tensorrt", what, against, ours, bare, "MB", ours / bare, limit)


def _convert(path: Path) -> tuple[str, ...]:
    work_dir = ("--work-dir", str(path.with_name("artifact")), "--overwrite")
    return (*COMMAND, "convert", "tensorrt-rtx", str(path), *work_dir)
