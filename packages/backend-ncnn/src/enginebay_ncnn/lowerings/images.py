"""Lowerings of circular padding to slices, and of resizing to products with constant matrices.

torch's own decompositions gather every element by its index, but ncnn can only cut slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay_ncnn.lowerings.common import LACKING, torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext

lowerings = eb.RewriterSet(backend="ncnn")


def _make_resize(dims: int, flags: int) -> Callable[..., Tensor]:
    """Return the lowering of a resize operator.

    Args:
        dims: The number of dimensions that are resized.
        flags: The number of the operator's arguments between ``size`` and the scale factors, such
            as ``align_corners``.
    """

    def lowering(ctx: LoweringContext, x: Tensor, size: Sequence[int] | None, *args: Any) -> Tensor:
        scales = args[flags] or [None] * dims
        for index in range(dims):
            dim = x.ndim - dims + index
            length = x.shape[dim]
            # The operator itself computes the matrix, from unit vectors. The other dimensions have
            # two elements each, because torch 2.13 resizes an image of width one wrongly.
            shape = [length if axis == index else 1 for axis in range(dims)]
            wide = [length if axis == index else 2 for axis in range(dims)]
            unit = torch.eye(length, dtype=x.dtype).reshape(1, length, *shape)
            unit = unit.expand(1, length, *wide)
            factors = [scales[axis] if axis == index else 1.0 for axis in range(dims)]
            sizes = [size[axis] if axis == index else 2 for axis in range(dims)] if size else None
            scaling = (*args[:flags], None if sizes else factors)
            resized = ctx.origin_op(unit.contiguous(), sizes, *scaling)
            columns = resized.movedim(2 + index, 2)
            matrix = columns.reshape(length, resized.shape[2 + index], -1)[..., 0]
            x = (x.movedim(dim, -1) @ matrix).movedim(-1, dim)
        return x

    return lowering


for _name, _dims, _flags in (
    ("_upsample_nearest_exact1d", 1, 0),
    ("_upsample_nearest_exact2d", 2, 0),
    ("_upsample_nearest_exact3d", 3, 0),
    ("upsample_nearest3d", 3, 0),
    ("upsample_trilinear3d", 3, 1),
):
    # TorchScript files contain the overload ``default``, which Enginebay's portable lowerings
    # replace, as they do with antialiasing.
    lowerings.lowering(f"aten.{_name}.vec", needs=LACKING)(_make_resize(_dims, _flags))


@lowerings.lowering("aten.pad", needs=LACKING)
def lower_pad(
    ctx: LoweringContext,
    x: Tensor,
    pad: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Tensor:
    """Pad by concatenating slices in mode ``circular``; torch's decomposition assigns to slices."""
    if mode != "circular":
        unchanged: Tensor = ctx.origin_op(x, pad, mode, value)
        return unchanged
    for index in range(len(pad) // 2):  # the pairs start with the last dimension
        dim = x.ndim - 1 - index
        before, after = pad[2 * index : 2 * index + 2]
        start, end = max(-before, 0), x.shape[dim] - max(-after, 0)
        x = x.narrow(dim, start, end - start)
        front = x.narrow(dim, end - start - max(before, 0), max(before, 0))
        x = torch.cat([front, x, x.narrow(dim, 0, max(after, 0))], dim)
    return x
