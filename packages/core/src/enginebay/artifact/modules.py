"""Which module of the source each node of an artifact's engine comes from: ``modules.json``.

An engine keeps at most the nodes' names. The IR, which knows their modules, is not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from enginebay.backend import times_layers
from enginebay.ir import source_modules

if TYPE_CHECKING:
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
    # Engines may call the nodes behind the model's outputs by the outputs' names.
    if modules := source_modules(ir.path, with_outputs=True):
        text = msgspec.json.format(msgspec.json.encode(modules, order="sorted"), indent=1)
        (folder / MODULES_FILE).write_bytes(text + b"\n")


def read_modules(folder: Path) -> dict[str, str]:
    """The path of the module that each node comes from, by its name; empty where nobody knows."""
    path = folder / MODULES_FILE
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.is_file() else {}
