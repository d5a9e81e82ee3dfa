"""Deploy configs: files that say what to export, for which engine, with which parameters.

TOML, JSON, YAML and Python, the last read without executing it. A file inherits from others with
``_base_``; ``load`` gives the result as plain values.
"""

from __future__ import annotations

from enginebay.config.dynamic import dynamic_shapes
from enginebay.config.loading import load, read
from enginebay.config.merging import plain
from enginebay.config.places import Place, Table
from enginebay.config.schema import config_schema
from enginebay.config.sections.backend_section import backend_params
from enginebay.config.sections.kinds import Sections
from enginebay.config.sections.problems import Problems
from enginebay.config.sections.reading import read_sections
from enginebay.config.writing import as_python

__all__ = [
    "Place",
    "Problems",
    "Sections",
    "Table",
    "as_python",
    "backend_params",
    "config_schema",
    "dynamic_shapes",
    "load",
    "plain",
    "read",
    "read_sections",
]
