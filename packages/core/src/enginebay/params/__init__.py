"""Parameters of backends: checked fields, which also become flags and config keys.

A backend declares its parameters once, as annotated fields with defaults and a docstring; see
:class:`BackendParams`. Instances are frozen, and checked when they are created. Every field is a
key of a config, and every field in the docstring is a command-line flag too.
"""

from __future__ import annotations

from enginebay.params.base import BackendParams, ConfigKey
from enginebay.params.declared import Declared
from enginebay.params.dynamic_dims import DynamicDim, DynamicShapes
from enginebay.params.fields import Field, declared_fields, read_fields
from enginebay.params.file_names import FileName
from enginebay.params.ir_kinds import IRKind
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
    "DynamicDim",
    "DynamicShapes",
    "Field",
    "FileName",
    "IRKind",
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
