"""Which module of the source each node of an artifact's engine comes from: ``modules.json``.

An engine keeps at most the nodes' names. The IR, which knows their modules, is not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from enginebay.backend import times_layers
from enginebay.ir import source_modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from enginebay.ir import IRModel

MODULES_FILE: Final = "modules.json"


def record_modules(folder: Path, ir: IRModel, backend: str) -> None:
    """Write the modules of an IR's nodes beside an engine whose backend can time its layers.

    Only ONNX files name their nodes; without a module that any of them comes from, as in a file
    from elsewhere, nothing is written.
    """
    if ir.kind != "onnx" or not times_layers(backend):
        return
    if modules := source_modules(ir.path):
        for tensor, node in _outputs(ir.path):
            if node in modules:
                modules.setdefault(tensor, modules[node])
        text = msgspec.json.format(msgspec.json.encode(modules, order="sorted"), indent=1)
        (folder / MODULES_FILE).write_bytes(text + b"\n")


def _outputs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the model's outputs with their nodes, which OpenVINO calls by the outputs' names."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    names = {output.name for output in graph.output}
    for node in graph.node:
        yield from ((tensor, node.name) for tensor in node.output if tensor in names)


def read_modules(folder: Path) -> dict[str, str]:
    """The path of the module that each node comes from, by its name; empty where nobody knows."""
    path = folder / MODULES_FILE
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.is_file() else {}
