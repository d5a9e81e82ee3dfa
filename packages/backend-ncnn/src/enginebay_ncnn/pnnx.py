"""Run the program pnnx, and read from its log which layer parameters pnnx ignored."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors import isolation
from enginebay.errors import (
    ChildTimeoutError,
    ConversionError,
    IsolationError,
    MissingDependencyError,
)
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.module_ops import find_module_classes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay_ncnn.candidates import Candidate
    from enginebay_ncnn.params import NcnnParams

#: pnnx exits with 0 even if it ignored parameters; only these lines of its log tell.
_IGNORED = re.compile(r"^ignore (?P<kind>\S+) (?P<name>\S+) param (?P<param>.*)$")

#: An ONNX operator that pnnx does not know, which mostly ends it.
_UNKNOWN = re.compile(r"unexpected op_type (\w+)")

#: pnnx writes this number as the batch axis of a tensor without a batch.
_NO_BATCH = 233

#: The hint if pnnx runs out of time.
_MORE_TIME = "a larger pnnx_timeout, or a larger --timeout: the first attempt gets an eighth of it"


def find_program() -> Path:
    """Return the path of the program ``pnnx`` in the package pnnx; do not import the package.

    The program is run directly, since the console script ``pnnx`` and the package's function
    ``convert`` start another Python process first, and ``convert`` also ignores the exit code.

    Raises:
        MissingDependencyError: pnnx is not installed.
    """
    spec = importlib.util.find_spec("pnnx")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("pnnx", "pnnx.exe"):
            if (path := Path(folder) / name).is_file():
                return path
    raise MissingDependencyError("the program pnnx is not installed", hint="pip install pnnx")


def _name_nodes(path: Path, operators: Iterable[str]) -> str:
    """Return the operators with the name of the first node of each."""
    import onnx

    nodes = onnx.load(path, load_external_data=False).graph.node
    first = {node.op_type: node.name or node.output[0] for node in reversed(nodes)}
    return ", ".join(f"{name} ('{first.get(name, '')}')" for name in operators)


class Converted:
    """The files that pnnx wrote for one model.

    Attributes:
        param: The ``.param`` file of the network.
        weights: The ``.bin`` file with the network's weights.
        ignored: The layer parameters that pnnx ignored, by layer name.
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
        """Return the batch axis of an input or output blob; None if the blob has no batch."""
        # Only the Python script that pnnx writes contains the axis.
        match = re.search(rf"\b{blob}\.numpy\(\)?(?:, )?batch_index=(\d+)\)", self._script)
        axis = int(match[1]) if match else _NO_BATCH
        return None if axis == _NO_BATCH else axis


def run_pnnx(candidate: Candidate, folder: Path, params: NcnnParams) -> Converted:
    """Run pnnx on a TorchScript or ONNX file, and return the files that pnnx wrote.

    Args:
        candidate: The file and its inputs.
        folder: The folder for all files that pnnx writes.
        params: The backend's parameters.

    Raises:
        ConversionError: pnnx crashed, ran out of time, or wrote no network.
        ParamsError: The file does not contain a class of the parameter ``module_ops``.
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
    # pnnx's default is fp16=1, with which ViT, BERT and wav2vec2 had errors of 8e-4 to 2.3e-3.
    words.append(f"fp16={int(params.precision == 'fp16')}")
    if shapes:
        words.append("inputshape=" + ",".join(shape.smallest_text for shape in shapes))
    if any(shape.is_open for shape in shapes):
        words.append("inputshape2=" + ",".join(shape.largest_text for shape in shapes))
    modules = find_module_classes(candidate.path, params.module_ops) if params.module_ops else {}
    if modules:
        words.append("moduleop=" + ",".join(modules))
    try:
        finished = isolation.run(
            [find_program(), candidate.path, *words],
            timeout=min(params.pnnx_timeout, candidate.timeout),
            cwd=folder,
            required_outputs=[folder / "net.param", folder / "net.py"],
        )
    except MissingDependencyError:
        raise
    except IsolationError as err:
        hint = _MORE_TIME if isinstance(err, ChildTimeoutError) else None
        notes = getattr(err, "__notes__", ())
        unknown = dict.fromkeys(_UNKNOWN.findall("\n".join(notes) or str(err)))
        error = ConversionError(f"pnnx failed: {err}", hint=hint)
        if unknown:
            error = ConversionError(f"pnnx does not know {_name_nodes(candidate.path, unknown)}")
        for note in notes:
            error.add_note(note)
        raise error from err
    converted = Converted(folder, finished.output)
    if modules:  # the caller's names: a module name in the file depends on the folder
        graph = Graph.read(converted.param)
        for layer in graph.layers:
            layer.type = modules.get(layer.type, layer.type)
        graph.write(converted.param)
    return converted
