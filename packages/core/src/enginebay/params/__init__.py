"""Parameters of backends: checked fields, which also become flags and config keys.

A backend declares its parameters once, as annotated fields with defaults and a docstring; see
:class:`BackendParams`. Instances are frozen, and checked when they are created. Every field is a
key of a config, and every field in the docstring is a command-line flag too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.params.base import (
        BackendParams as BackendParams,
        ConfigKey as ConfigKey,
    )
    from enginebay.params.declared import (
        Declared as Declared,
    )
    from enginebay.params.dynamic_dims import (
        DynamicDim as DynamicDim,
        DynamicShapes as DynamicShapes,
        add_sizes as add_sizes,
    )
    from enginebay.params.fields import (
        Field as Field,
        declared_fields as declared_fields,
        read_fields as read_fields,
    )
    from enginebay.params.file_names import (
        FileName as FileName,
    )
    from enginebay.params.ir_kinds import (
        IRKind as IRKind,
    )
    from enginebay.params.shapes import (
        ShapeProfile as ShapeProfile,
        Shapes as Shapes,
        SizeLimits as SizeLimits,
        format_dims as format_dims,
        inputs_in as inputs_in,
        name_shapes as name_shapes,
        parse_shapes as parse_shapes,
        resolve_profiles as resolve_profiles,
        size_limits as size_limits,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "params.base": "BackendParams ConfigKey",
        "params.declared": "Declared",
        "params.dynamic_dims": "DynamicDim DynamicShapes add_sizes",
        "params.fields": "Field declared_fields read_fields",
        "params.file_names": "FileName",
        "params.ir_kinds": "IRKind",
        "params.shapes": (
            "ShapeProfile Shapes SizeLimits format_dims inputs_in name_shapes parse_shapes "
            "resolve_profiles size_limits"
        ),
    },
)
