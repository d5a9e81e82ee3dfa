"""Files for authors of plugins: IRs, configs, atomic replacement, locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.config import (
        SECTIONS as SECTIONS,
        Problems as Problems,
        Sections as Sections,
        backend_params as backend_params,
        read_config as read_config,
        read_sections as read_sections,
        read_table as read_table,
    )
    from enginebay.files import (
        lock_file as lock_file,
        replacement as replacement,
        write_whole as write_whole,
    )
    from enginebay.ir import (
        Draft as Draft,
        Obstacle as Obstacle,
        quiet as quiet,
        raise_opset as raise_opset,
        read_exported_program as read_exported_program,
        read_inlined as read_inlined,
        read_ir as read_ir,
        read_onnx as read_onnx,
        read_torchscript as read_torchscript,
        source_modules as source_modules,
        summarise_onnx as summarise_onnx,
        to_half as to_half,
    )
    from enginebay.operations import draft_irs as draft_irs


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "config": "Problems SECTIONS Sections backend_params read_config read_sections read_table",
        "files": "lock_file replacement write_whole",
        "ir": (
            "Draft Obstacle quiet raise_opset read_exported_program read_inlined read_ir read_onnx "
            "read_torchscript source_modules summarise_onnx to_half"
        ),
        "operations": "draft_irs",
    },
)
