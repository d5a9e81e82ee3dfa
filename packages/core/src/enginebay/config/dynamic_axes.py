"""Convert the ``dynamic_axes`` of a config to dynamic dimensions with ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enginebay.params import DynamicDim

if TYPE_CHECKING:
    from enginebay.config.sections import IRSection
    from enginebay.params import BackendParams, ShapeProfile


def dynamic_shapes(ir: IRSection, params: BackendParams) -> dict[str, dict[int, DynamicDim]] | None:
    """Return input → axis → dynamic dimension; None if the section makes no axis dynamic.

    The range of an axis comes from the smallest and largest shapes in the parameters. If these are
    missing or equal, axis 0 (the batch) may have any size from 1. For any other axis, no range is
    then stated, since a model need not accept images of one pixel.

    Args:
        ir: The section with ``dynamic_axes``.
        params: The backend's parameters, with the shapes of the inputs.
    """
    if not ir.dynamic_axes:
        return None
    profiles = params.shape_profiles()
    return {
        name: {
            axis: _dynamic_dim(text, axis, profiles.get(name))
            for axis, text in _axis_names(name, axes)
        }
        for name, axes in ir.dynamic_axes.items()
        if not ir.input_names or name in ir.input_names  # the axes of outputs follow from these
    }


def _axis_names(name: str, axes: Mapping[int, str] | tuple[int, ...]) -> list[tuple[int, str]]:
    pairs = axes.items() if isinstance(axes, Mapping) else ((a, f"{name}_{a}") for a in axes)
    return [(axis, _to_identifier(text)) for axis, text in pairs]


def _to_identifier(text: str) -> str:
    # Some configs have names like "num_crops * num_segs"; exporters require identifiers.
    if re.fullmatch(r"[A-Za-z_]\w*(\s*\+\s*\w+)+", text):  # a sum of other dimensions
        return re.sub(r"\s", "", text)
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name.isidentifier() else f"dim_{name}"


def _dynamic_dim(name: str, axis: int, profile: ShapeProfile | None) -> DynamicDim:
    if "+" in name:
        return DynamicDim(name)
    if profile is not None and axis < len(profile.opt):
        sizes: tuple[Any, ...] = (profile.min[axis], profile.opt[axis], profile.max[axis])
        if None not in sizes and sizes[0] != sizes[2]:
            return DynamicDim(name, sizes[0], sizes[2], sizes[1])
    return DynamicDim(name, min=0 if axis else 1)
