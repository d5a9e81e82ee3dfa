"""Calls of the program pnnx, whose log names parameters that it silently ignores."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors import run
from enginebay.errors import (
    ChildTimeoutError,
    ConversionError,
    IsolationError,
    MissingDependencyError,
)
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.module_ops import class_names

if TYPE_CHECKING:
    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.params import NcnnParams

_IGNORED = re.compile(r"^ignore (?P<kind>\S+) (?P<name>\S+) param (?P<param>.*)$")

#: The batch axis that pnnx writes where a tensor has none.
_NO_BATCH = 233

#: The hint where time is over that other attempts still had.
_MORE_TIME = "a larger pnnx_timeout, or a larger --timeout: an eighth of it is the first attempt's"


def program() -> Path:
    """Return the path of pnnx's program inside its package, which is not imported.

    The console script of the same name starts a second Python for it, and so does the package's
    ``convert``, which also ignores the exit code.

    Raises:
        MissingDependencyError: pnnx is not installed.
    """
    spec = importlib.util.find_spec("pnnx")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("pnnx", "pnnx.exe"):
            if (found := Path(folder) / name).is_file():
                return found
    raise MissingDependencyError("the program pnnx is not installed", hint="pip install pnnx")


class Converted:
    """The files that pnnx wrote for one model.

    Attributes:
        param: The network.
        weights: Its weights.
        ignored: The parameters in its ``ignore …`` lines, by the name of the layer.
    """

    def __init__(self, folder: Path, output: str) -> None:
        self.param = folder / "net.param"
        self.weights = folder / "net.bin"
        self.ignored = {
            match["name"]: match["param"]
            for line in output.splitlines()
            if (match := _IGNORED.match(line))
        }
        self._script = (folder / "net.py").read_text()

    def batch_axis(self, blob: str) -> int | None:
        """Return the axis of an input or output tensor that is the blob's batch, if any."""
        found = re.search(rf"\b{blob}\.numpy\(\)?(?:, )?batch_index=(\d+)\)", self._script)
        axis = int(found[1]) if found else _NO_BATCH
        return None if axis == _NO_BATCH else axis


def convert(candidate: Candidate, folder: Path, params: NcnnParams) -> Converted:
    """Run pnnx on a TorchScript or ONNX file.

    Args:
        candidate: The file and its inputs.
        folder: The folder for all files that pnnx writes.
        params: The backend's parameters.

    Raises:
        ConversionError: It crashed, ran out of time, or wrote no network.
        ParamsError: The file has no class that ``module_ops`` names.
    """
    outputs = {
        "ncnnparam": "net.param",
        "ncnnbin": "net.bin",
        "ncnnpy": "net.py",
        "pnnxparam": "pnnx.param",
        "pnnxbin": "pnnx.bin",
        "pnnxpy": "pnnx.py",
        "pnnxonnx": "pnnx.onnx",
    }
    shapes = [feed.shape for feed in candidate.feeds]
    words = [f"{key}={folder / name}" for key, name in outputs.items()]
    words.append(f"fp16={int(params.precision == 'fp16')}")
    if shapes:
        words.append("inputshape=" + ",".join(shape.smallest_text for shape in shapes))
    if any(shape.is_open for shape in shapes):
        words.append("inputshape2=" + ",".join(shape.largest_text for shape in shapes))
    kept = class_names(candidate.path, params.module_ops) if params.module_ops else {}
    if kept:
        words.append("moduleop=" + ",".join(kept))
    try:
        finished = run(
            [program(), candidate.path, *words],
            timeout=min(params.pnnx_timeout, candidate.timeout),
            cwd=folder,
            required_outputs=[folder / "net.param", folder / "net.py"],
        )
    except MissingDependencyError:
        raise
    except IsolationError as err:
        hint = _MORE_TIME if isinstance(err, ChildTimeoutError) else None
        error = ConversionError(f"pnnx failed: {err}", hint=hint)
        for note in getattr(err, "__notes__", ()):
            error.add_note(note)
        raise error from err
    converted = Converted(folder, finished.output)
    if kept:  # the name of a file's module depends on its folder
        graph = Graph.read(converted.param)
        for layer in graph.layers:
            layer.type = kept.get(layer.type, layer.type)
        graph.write(converted.param)
    return converted
