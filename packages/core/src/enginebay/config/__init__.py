"""Deploy configs: files that say what to export, for which engine, with which parameters.

TOML, JSON, YAML and Python, the last read without executing it. A file inherits from others with
``_base_``; ``load`` returns the result as plain values.
"""

from __future__ import annotations

from enginebay.config.backend_section import backend_params
from enginebay.config.config_file import read, read_config
from enginebay.config.dynamic_axes import dynamic_shapes
from enginebay.config.merging import plain
from enginebay.config.problems import Problems
from enginebay.config.schema import config_schema
from enginebay.config.section_reader import read_sections
from enginebay.config.sections import Sections
from enginebay.config.writing import as_python

__all__ = [
    "Problems",
    "Sections",
    "as_python",
    "backend_params",
    "config_schema",
    "dynamic_shapes",
    "plain",
    "read",
    "read_config",
    "read_sections",
]
