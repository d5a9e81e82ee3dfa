"""``dynamic_axes`` in the form that exporters take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enginebay.models import DynamicDim

if TYPE_CHECKING:
    from enginebay.config.sections import IRSection
    from enginebay.params import BackendParams, ShapeProfile


def dynamic_shapes(ir: IRSection, params: BackendParams) -> dict[str, dict[int, DynamicDim]] | None:
    """Input → axis → dimension, with the sizes that the params give it; None if none is open.

    The smallest and largest shapes give an open axis its range. Without them, or if they are
    equal, the batch may be any size from 1, and any other axis any size at all: a model need not
    take images of one pixel.

    Args:
        ir: The section with ``dynamic_axes``.
        params: The backend's parameters, with the shapes of the inputs.
    """
    if not ir.dynamic_axes:
        return None
    profiles = params.shape_profiles()
    return {
        name: {axis: _dim(text, axis, profiles.get(name)) for axis, text in _named(name, axes)}
        for name, axes in ir.dynamic_axes.items()
        if not ir.input_names or name in ir.input_names  # the axes of outputs follow from these
    }


def _named(name: str, axes: Mapping[int, str] | tuple[int, ...]) -> list[tuple[int, str]]:
    pairs = axes.items() if isinstance(axes, Mapping) else ((a, f"{name}_{a}") for a in axes)
    return [(axis, _identifier(text)) for axis, text in pairs]


def _identifier(text: str) -> str:
    """``num_crops * num_segs`` is a name in some configs; exporters want an identifier."""
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name.isidentifier() else f"dim_{name}"


def _dim(name: str, axis: int, profile: ShapeProfile | None) -> DynamicDim:
    if profile is not None and axis < len(profile.opt):
        sizes: tuple[Any, ...] = (profile.min[axis], profile.opt[axis], profile.max[axis])
        if None not in sizes and sizes[0] != sizes[2]:
            return DynamicDim(name, sizes[0], sizes[2], sizes[1])
    return DynamicDim(name, min=0 if axis else 1)
