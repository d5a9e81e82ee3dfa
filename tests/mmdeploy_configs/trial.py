"""Runs ``enginebay deploy`` with a config, and compares the artifact with what the config asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import psutil

import enginebay as eb
from enginebay.authors.files import read_config

from .configs import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .configs import Case

#: Seconds and bytes that one deployment may take, its children included.
SECONDS, MEMORY = 900, 6 << 30
#: The number of items of noise that calibrate.
ITEMS = 8

Outcome = Literal["verified", "otherwise", "unverified", "mismatched", "refused", "crashed"]


class Row(msgspec.Struct, kw_only=True):
    """The result of one config.

    Attributes:
        model: MODEL, and the flags, of the command line.
        outcome: ``verified`` if the artifact is what the config asks for, ``otherwise`` if it is
            verified and something else; the other verdicts; ``refused`` after an error.
        cause: Why it is not as the config asks; on one line.
        engine: The engine's name and version.
        outputs: The names and dimensions of the outputs.
        seconds: From the start of the command to its end.
        memory: The GiB of the process and its children, at most.
    """

    model: str
    outcome: Outcome
    cause: str = ""
    engine: str = ""
    outputs: dict[str, list[int | str]] = {}
    seconds: float = 0.0
    memory: float = 0.0


def try_config(config: str, folder: Path) -> Row:
    """Deploy the model of a config in a child process.

    Args:
        config: Its path, as in the list.
        folder: MMDeploy's folder ``configs``.
    """
    case = CASES[config]
    file = folder / f"{config}.py"
    with TemporaryDirectory(prefix="enginebay-mmdeploy-") as temporary:
        artifact = Path(temporary, "artifact")
        flags = case.flags.split()
        if case.calibration:
            flags += ["--data", str(_write_noise(case, Path(temporary)))]
        row = Row(model=" ".join((case.model, case.flags)).strip(), outcome="crashed")
        words = ("deploy", case.model, "--config", str(file), *flags)
        output, message = _run([*words, "--work-dir", str(artifact), "--json"], temporary, row)
        document = json.loads(output) if output.strip() else {}
        if message or not document:
            row.cause = message or "the process ended without a document"
            return row
        if error := document.get("error"):
            said = error["message"].replace(f"{folder}/", "")
            row.outcome, row.cause = "refused", _first_line(said)
            if error["type"] == "NotVerifiedError":  # begins with the verdict; the place is next
                row.outcome = said.split()[0].strip(":")
                row.cause = " ".join(" ".join(said.splitlines()[:2]).split())[:300]
        elif (artifact / "manifest.json").exists():
            _judge(row, eb.open_artifact(artifact), read_config(file))
    return row


def _write_noise(case: Case, folder: Path) -> Path:
    shape = [int(size) for size in case.calibration.split("x")]
    noise = np.random.default_rng(0).standard_normal((ITEMS, *shape), np.float32)
    np.savez(folder / "noise.npz", input=noise)
    return folder / "noise.npz"


def _run(words: list[str], folder: str, row: Row) -> tuple[str, str]:
    """Run the command line within the limits; return its output, and why it was ended."""
    command = (sys.executable, "-m", "tests.mmdeploy_configs.command", *words)
    root = str(Path(__file__).parents[2])
    start, message, most = time.monotonic(), "", 0
    with (
        Path(folder, "stdout").open("w+", encoding="utf-8") as output,
        Path(folder, "stderr").open("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            command, stdout=output, stderr=errors, cwd=root, env={**os.environ, "PYTHONPATH": root}
        ) as child,
    ):
        while child.poll() is None and not message:
            time.sleep(0.25)
            most = max(most, _resident_bytes(child.pid))
            if time.monotonic() - start > SECONDS:
                message = f"took more than {SECONDS // 60} minutes"
            elif most > MEMORY:
                message = f"took more than {MEMORY >> 30} GiB"
        if message:
            _end(child.pid)
        row.seconds = round(time.monotonic() - start, 1)
        row.memory = round(most / 2**30, 2)
        output.seek(0)
        errors.seek(0)
        said = output.read()
        if not said and not message:
            message = (errors.read().splitlines() or [""])[-1][:300]
        return said, message


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")[:300]


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _resident_bytes(pid: int) -> int:
    total = 0
    for process in _family(pid):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def _end(pid: int) -> None:
    for process in reversed(_family(pid)):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def _judge(row: Row, artifact: eb.Artifact, config: dict[str, Any]) -> None:
    """Put the verdict of an artifact into its row, and where it is not what the config asks."""
    manifest = artifact.manifest
    assert manifest.verification
    row.engine = manifest.receipt.engine if manifest.receipt else manifest.backend
    row.outputs = {spec.name: list(spec.dims) for spec in manifest.outputs}
    verification = manifest.verification
    if verification.verdict != "verified":
        row.outcome = verification.verdict
        worst = max(verification.outputs, key=lambda output: output.badness, default=None)
        row.cause = verification.reason or (worst.describe() if worst else "")
        return
    row.cause = "; ".join(differences(artifact, config))
    row.outcome = "otherwise" if row.cause else "verified"


def differences(artifact: eb.Artifact, config: dict[str, Any]) -> Iterator[str]:
    """Yield where an artifact is not what a config asks for.

    An output's axis that the config names and that has a fixed size is as asked: a detector that
    always returns 100 rows, unused ones marked, returns a number of rows. Axes of an output with
    fewer than the config names, such as DBNet's map without channels, are not compared.
    """
    manifest = artifact.manifest
    backend, onnx = config["backend_config"], config["onnx_config"]
    engine = backend["type"]
    if manifest.backend != engine:
        yield f"the engine is {manifest.backend}, and {engine} is asked for"
    precision = str(backend.get("precision", "fp32")).lower()
    found = manifest.receipt.precision if manifest.receipt else "unknown"
    if found != precision:
        yield f"the precision is {found}, and {precision} is asked for"
    if manifest.receipt and manifest.receipt.fallbacks:
        yield manifest.receipt.fallbacks[0]
    # ncnn's own files keep nothing of the operator set.
    if engine != "ncnn" and manifest.ir and manifest.ir.opset != onnx["opset_version"]:
        yield f"the operator set is {manifest.ir.opset}, and {onnx['opset_version']} is asked for"
    for asked, specs in (
        (onnx["input_names"], manifest.inputs),
        (onnx["output_names"], manifest.outputs),
    ):
        if [spec.name for spec in specs] != list(asked):
            yield f"the names are {[spec.name for spec in specs]}, and {asked} are asked for"
    axes = onnx.get("dynamic_axes") or {}
    for spec in manifest.inputs:
        wanted = {int(axis) for axis in axes.get(spec.name, ())}
        dynamic = {axis for axis, size in enumerate(spec.dims) if isinstance(size, str)}
        if wanted != dynamic:
            yield f"dynamic axes of {spec.name} are {dynamic or 'none'}, {wanted or 'none'} asked"
    for spec in manifest.outputs:
        wanted = {int(axis) for axis in axes.get(spec.name, ())}
        dynamic = {axis for axis, size in enumerate(spec.dims) if isinstance(size, str)}
        if not dynamic <= wanted and max(wanted, default=0) < len(spec.dims):
            yield f"dynamic axes of {spec.name} are {dynamic}, {wanted or 'none'} asked"
    yield from _other_sizes(artifact, config)
    if config.get("partition_config") and not manifest.parts:
        yield "the model is whole, and parts are asked for"
    stem = Path(onnx["save_file"]).stem
    if not manifest.parts and not manifest.model_files[0].startswith(stem):
        yield f"the file is {manifest.model_files[0]}, and {stem} is asked for"


def _other_sizes(artifact: eb.Artifact, config: dict[str, Any]) -> Iterator[str]:
    """Yield where the example has another size than the config gives."""
    wanted = {}
    if size := config["onnx_config"].get("input_shape"):
        wanted[artifact.inputs[0].name] = [1, 3, size[1], size[0]]
    for inputs in config["backend_config"].get("model_inputs", ()):
        wanted.update(inputs.get("opt_shapes", {}))
    example = artifact.samples()[0].inputs
    for name, shape in wanted.items():
        found = list(example[name].shape) if name in example else None
        if found != list(shape):
            yield f"the example's {name} is {found}, and {list(shape)} is asked for"
