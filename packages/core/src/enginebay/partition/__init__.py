"""Dividing a model: marks in its code, cuts in its graph, and one engine for each part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.partition.chained_wrapper import ChainedWrapper as ChainedWrapper
    from enginebay.partition.cuts import Cut as Cut
    from enginebay.partition.marking import (
        mark as mark,
        mark_nodes as mark_nodes,
        marks as marks,
    )
    from enginebay.partition.onnx_split import split as split
    from enginebay.partition.parts import (
        SIMULATION_FOLDER as SIMULATION_FOLDER,
        Part as Part,
        convert_parts as convert_parts,
        load_parts as load_parts,
        simulation_folder as simulation_folder,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "partition.chained_wrapper": "ChainedWrapper",
        "partition.cuts": "Cut",
        "partition.marking": "mark mark_nodes marks",
        "partition.onnx_split": "split",
        "partition.parts": "Part SIMULATION_FOLDER convert_parts load_parts simulation_folder",
    },
)
