"""Deploy configs: files that specify an export, an engine and the engine's parameters.

A config is a TOML, JSON, YAML or Python file; Python is read without being executed. With the key
``_base_``, a file inherits from other files, its bases; ``read_config`` returns the merged config
as plain values. The package's public names are imported lazily, because ``--help`` must not import
the readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.config.backend_section import backend_params as backend_params
    from enginebay.config.config_file import (
        read_config as read_config,
        read_table as read_table,
    )
    from enginebay.config.dynamic_axes import dynamic_shapes as dynamic_shapes
    from enginebay.config.merging import plain as plain
    from enginebay.config.options import (
        ONLY_OF_DEPLOY as ONLY_OF_DEPLOY,
        ExportOptions as ExportOptions,
        VerifyOptions as VerifyOptions,
        merge_options as merge_options,
        refuse_options as refuse_options,
    )
    from enginebay.config.problems import Problems as Problems
    from enginebay.config.section_reader import read_sections as read_sections
    from enginebay.config.sections import SECTIONS as SECTIONS, Sections as Sections


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "config.backend_section": "backend_params",
        "config.config_file": "read_config read_table",
        "config.dynamic_axes": "dynamic_shapes",
        "config.merging": "plain",
        "config.options": "ExportOptions ONLY_OF_DEPLOY VerifyOptions merge_options refuse_options",
        "config.problems": "Problems",
        "config.section_reader": "read_sections",
        "config.sections": "SECTIONS Sections",
    },
)
