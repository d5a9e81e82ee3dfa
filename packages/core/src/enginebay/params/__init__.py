"""The parameters of backends: declared fields, file names, shapes, and the flags they become.

A backend declares its parameters once: annotated fields with defaults, and a docstring that
explains them. It gets a frozen value that is checked when it is made, a flag for every field that
the docstring names, and the same names as keys of a config. :class:`BackendParams` shows how.
"""

from __future__ import annotations

from enginebay.params.base import BackendParams, ConfigKey
from enginebay.params.declared import Declared
from enginebay.params.fields import Field, declared_fields, read_fields
from enginebay.params.file_names import FileName
from enginebay.params.shapes import (
    ShapeProfile,
    Shapes,
    format_dims,
    inputs_in,
    name_shapes,
    parse_shapes,
    resolve_profiles,
)

__all__ = [
    "BackendParams",
    "ConfigKey",
    "Declared",
    "Field",
    "FileName",
    "ShapeProfile",
    "Shapes",
    "declared_fields",
    "format_dims",
    "inputs_in",
    "name_shapes",
    "parse_shapes",
    "read_fields",
    "resolve_profiles",
]
