"""Images whose dimensions are resized each for itself: a product with a constant matrix each.

torch's own decompositions look every number up by an index, which ncnn has for slices only.
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


def _resized(dims: int, flags: int, *, is_vec: bool) -> Callable[..., Tensor]:
    """A lowering, by the dimensions, the flags behind the size, and how the factors are given."""

    def lowering(ctx: LoweringContext, x: Tensor, size: Sequence[int] | None, *args: Any) -> Tensor:
        scales = (args[flags] if is_vec else args[flags:]) or [None] * dims
        for place in range(dims):
            dim = x.ndim - dims + place
            own = x.shape[dim]
            # The operator has the matrix: it is what becomes of ones. The other dimensions have two
            # elements each, since torch 2.13 blurs an image of width one in the wrong places.
            shape = [own if axis == place else 1 for axis in range(dims)]
            wide = [own if axis == place else 2 for axis in range(dims)]
            unit = torch.eye(own, dtype=x.dtype).reshape(1, own, *shape).expand(1, own, *wide)
            factors = [scales[axis] if axis == place else 1.0 for axis in range(dims)]
            sizes = [size[axis] if axis == place else 2 for axis in range(dims)] if size else None
            if is_vec:
                factors = [None if sizes else factors]
            found = ctx.origin_op(unit.contiguous(), sizes, *args[:flags], *factors)
            matrix = found.movedim(2 + place, 2).reshape(own, found.shape[2 + place], -1)[..., 0]
            x = (x.movedim(dim, -1) @ matrix).movedim(-1, dim)
        return x

    return lowering


for _name, _dims, _flags in (
    ("_upsample_nearest_exact1d", 1, 0),
    ("_upsample_nearest_exact2d", 2, 0),
    ("_upsample_nearest_exact3d", 3, 0),
    ("upsample_nearest3d", 3, 0),
    ("upsample_trilinear3d", 3, 1),
    ("_upsample_bilinear2d_aa", 2, 1),
    ("_upsample_bicubic2d_aa", 2, 1),
):
    # A file that was loaded has the default ones; those of the others Enginebay's own serve.
    for _overload in ("vec", "default") if _name.endswith("_aa") else ("vec",):
        lowerings.lowering(f"aten.{_name}.{_overload}", needs=LACKING)(
            _resized(_dims, _flags, is_vec=_overload == "vec")
        )


@lowerings.lowering("aten.pad", needs=LACKING)
def pad(
    ctx: LoweringContext,
    x: Tensor,
    pad: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Tensor:
    """Circular pads as slices; torch's own writes to a new tensor piece by piece."""
    if mode != "circular":
        own: Tensor = ctx.origin_op(x, pad, mode, value)
        return own
    for place in range(len(pad) // 2):
        dim = x.ndim - 1 - place
        before, after = pad[2 * place : 2 * place + 2]
        start, end = max(-before, 0), x.shape[dim] - max(-after, 0)
        x = x.narrow(dim, start, end - start)
        front = x.narrow(dim, end - start - max(before, 0), max(before, 0))
        x = torch.cat([front, x, x.narrow(dim, 0, max(after, 0))], dim)
    return x
