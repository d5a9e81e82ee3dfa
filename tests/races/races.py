"""Processes that overwrite an artifact in a loop, and others that read it meanwhile."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import enginebay as eb
from enginebay.artifact import staging
from enginebay.authors.artifacts import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The races and their names in the table.
TITLES = {"artifact": "an artifact", "engine": "an engine (onnxruntime)"}
WRITERS = READERS = 2


def race(name: str, folder: Path, seconds: float) -> dict[str, tuple[int, Counter[str]]]:
    """Return the number of runs and the errors, by the role of writer or reader."""
    write, read = {"artifact": (publish, reopen), "engine": (convert, load)}[name]
    if name == "engine":
        for version in "ab":
            save_model(folder, version)
    write(folder, "a")
    context = multiprocessing.get_context("forkserver")  # fork would copy the engine's threads
    context.set_forkserver_preload([__name__])
    results = context.SimpleQueue()
    jobs = [("writers", write)] * WRITERS + [("readers", read)] * READERS
    processes = [
        context.Process(target=repeat, args=(role, job, folder, seconds, index, results))
        for index, (role, job) in enumerate(jobs)
    ]
    for process in processes:
        process.start()
    counts = {role: (0, Counter[str]()) for role, _ in jobs}
    for _ in processes:
        role, runs, wrong = results.get()
        counts[role] = (counts[role][0] + runs, counts[role][1] + wrong)
    for process in processes:
        process.join()
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    counts["writers"][1].update(f"left {name}" for name in left)
    return counts


def repeat(
    role: str, job: Callable[[Path, str], None], folder: Path, seconds: float, index: int, out
) -> None:
    """Repeat a job until the time is up, with both versions in turn."""
    wrong: Counter[str] = Counter()
    runs = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end or not runs:
        runs += 1
        try:
            job(folder, "ab"[(runs + index) % 2])
        except Exception as err:  # the table shows any error
            wrong[f"{type(err).__name__}: {str(err).replace(str(folder), '')[:100]}"] += 1
    out.put((role, runs, wrong))


def publish(folder: Path, version: str) -> None:
    """Write an artifact with its version in each file; the versions differ in a file."""
    with staging(folder / "model", overwrite=True) as stage:
        for name in ("model.bin", "samples.bin", f"only_{version}.bin"):
            (stage.dir / name).write_text(version * 3000)
        fields = {
            "backend": "races",
            "plugin": {"distribution": "races", "version": "1"},
            "engine_version": "1",
            "model_files": ["model.bin"],
            "command": version,
        }
        stage.publish(msgspec.convert(fields, Manifest))


def reopen(folder: Path, _: str) -> None:
    """Open the artifact, which checks every file against the manifest."""
    version = eb.open_artifact(folder / "model").manifest.command
    assert version in ("a", "b"), version


def save_model(folder: Path, version: str) -> None:
    """Save a model that adds 1 or 2 to its input, with an output of the version's name."""
    value = np.array([1.0 + "ab".index(version)], np.float32)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "step"], [version])],
        version,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info(version, TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(value, "step")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, folder / f"{version}.onnx")


def convert(folder: Path, version: str) -> None:
    """Convert one of the two models to an artifact of the same name."""
    eb.convert(
        folder / f"{version}.onnx", backend="onnxruntime", work_dir=folder / "model", overwrite=True
    )


def load(folder: Path, _: str) -> None:
    """Load the engine: its names and its outputs must belong to the same version."""
    with eb.load(folder / "model") as wrapper:
        outputs = wrapper({"x": np.zeros(1, np.float32)})
    expected = {"a": 1.0, "b": 2.0}
    ((name, value),) = outputs.items()
    assert value[0] == expected[name], (name, value)
