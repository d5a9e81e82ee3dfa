"""Deploy configs: files that say what to export, for which engine, with which parameters.

TOML, JSON, YAML and Python, the last read without executing it. A file inherits from others with
``_base_``; ``read_config`` returns the result as plain values. Help must not import what reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.config.backend_section import backend_params
    from enginebay.config.config_file import read, read_config
    from enginebay.config.dynamic_axes import dynamic_shapes
    from enginebay.config.merging import plain
    from enginebay.config.options import (
        ONLY_OF_DEPLOY,
        ExportOptions,
        VerifyOptions,
        merge_options,
        refuse_options,
    )
    from enginebay.config.problems import Problems
    from enginebay.config.schema import config_schema
    from enginebay.config.section_reader import read_sections
    from enginebay.config.sections import Sections
    from enginebay.config.writing import as_python

__all__ = [
    "ONLY_OF_DEPLOY",
    "ExportOptions",
    "Problems",
    "Sections",
    "VerifyOptions",
    "as_python",
    "backend_params",
    "config_schema",
    "dynamic_shapes",
    "merge_options",
    "plain",
    "read",
    "read_config",
    "read_sections",
    "refuse_options",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ONLY_OF_DEPLOY": "config.options",
        "ExportOptions": "config.options",
        "Problems": "config.problems",
        "Sections": "config.sections",
        "VerifyOptions": "config.options",
        "as_python": "config.writing",
        "backend_params": "config.backend_section",
        "config_schema": "config.schema",
        "dynamic_shapes": "config.dynamic_axes",
        "merge_options": "config.options",
        "plain": "config.merging",
        "read": "config.config_file",
        "read_config": "config.config_file",
        "read_sections": "config.section_reader",
        "refuse_options": "config.options",
    },
)
