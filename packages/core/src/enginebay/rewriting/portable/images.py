"""Images: what mixes each dimension for itself is a product with a constant matrix for each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.portable.common import joined, lowers, torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext

#: torch's numbers for the ways of ``grid_sample``.
_NEAREST, _CUBIC, _REFLECTION = 1, 2, 2


def _separable(x: Tensor, sizes: Sequence[int], along: Callable[[int, Tensor], Tensor]) -> Tensor:
    """Multiply each of the last dimensions by the matrix that the operator makes of ones.

    Args:
        x: The image.
        sizes: How many numbers each of its dimensions has afterwards.
        along: The operator on an image with one dimension of more than one, and its place.
    """
    for place, wanted in enumerate(sizes):
        dim = place - len(sizes)
        size = x.shape[dim]
        shape = [size if axis == place else 1 for axis in range(len(sizes))]
        unit = torch.eye(size, dtype=x.dtype, device=x.device).reshape(1, size, *shape)
        matrix = along(place, unit).reshape(size, wanted)
        x = (x.movedim(dim, -1) @ matrix).movedim(-1, dim)
    return x


def _upsample(dims: int, corners: bool) -> Callable[..., Tensor]:
    def lowering(ctx: LoweringContext, x: Tensor, size: Sequence[int], *args: Any) -> Tensor:
        if not x.dtype.is_floating_point:
            found: Tensor = ctx.origin_op(x, size, *args)
            return found
        flags, scales = (args[:1], args[1:]) if corners else ((), args)

        def along(place: int, unit: Tensor) -> Tensor:
            own = [scale if axis == place else None for axis, scale in enumerate(scales)]
            sizes = [n if axis == place else 1 for axis, n in enumerate(size)]
            found: Tensor = ctx.origin_op(unit, sizes, *flags, *own)
            return found

        return _separable(x, size, along)

    return lowering


for _name, _dims, _corners in (
    *((f"upsample_nearest{dims}d", dims, False) for dims in (1, 2, 3)),
    *((f"_upsample_nearest_exact{dims}d", dims, False) for dims in (1, 2, 3)),
    # torch takes the two-dimensional ones apart by itself.
    *(("upsample_linear1d", 1, True), ("upsample_trilinear3d", 3, True)),
):
    lowers(f"{_name}.default")(_upsample(_dims, _corners))


@lowers("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(ctx: LoweringContext, x: Tensor, output_size: Sequence[int]) -> Tensor:
    for place, count in enumerate(output_size):
        dim = place - len(output_size)
        size = x.shape[dim]
        start, end = _windows(size, count)
        rows = torch.arange(size).unsqueeze(-1)
        inside = (rows >= start) & (rows < end)
        matrix = inside.to(x.dtype) / (end - start).to(x.dtype)
        x = (x.movedim(dim, -1) @ matrix).movedim(-1, dim)
    return x


def _windows(size: int, count: int) -> tuple[Tensor, Tensor]:
    """The windows of an adaptive pool: their first places, and those behind their last."""
    places = torch.arange(count)
    return places * size // count, ((places + 1) * size + count - 1) // count


@lowers("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(
    ctx: LoweringContext, x: Tensor, output_size: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """The largest of each window, dimension by dimension from the last, and where it was."""
    sizes = x.shape[x.ndim - len(output_size) :]
    places = torch.arange(math.prod(sizes), device=x.device).reshape(tuple(sizes)).expand(x.shape)
    for axis in reversed(range(len(sizes))):
        dim = x.ndim - len(sizes) + axis
        values, found = [], []
        for place in range(output_size[axis]):
            start = place * sizes[axis] // output_size[axis]
            length = -(-(place + 1) * sizes[axis] // output_size[axis]) - start
            value, at = x.narrow(dim, start, length).max(dim, keepdim=True)
            values.append(value)
            found.append(places.narrow(dim, start, length).gather(dim, at))
        x, places = joined(values, dim), joined(found, dim)
    return x, places


@lowers("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(ctx: LoweringContext, x: Tensor, padding: Sequence[int]) -> Tensor:
    return _padded(x, padding, lambda places, last: last - (last - places.abs()).abs())


@lowers("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(ctx: LoweringContext, x: Tensor, padding: Sequence[int]) -> Tensor:
    return _padded(x, padding, lambda places, last: places.clamp(0, last))


def _padded(x: Tensor, padding: Sequence[int], inside: Callable[[Any, int], Tensor]) -> Tensor:
    """Look up the places that come to lie beyond the edges, the last dimension first."""
    for place in range(len(padding) // 2):
        dim = x.ndim - 1 - place
        before, after = padding[2 * place : 2 * place + 2]
        places = torch.arange(-before, x.shape[dim] + after, device=x.device)
        x = x.index_select(dim, inside(places, x.shape[dim] - 1))
    return x


@lowers("im2col")
def im2col(
    ctx: LoweringContext,
    x: Tensor,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """A convolution whose kernels pick one number each."""
    images = x if x.ndim == 4 else x.unsqueeze(0)
    channels = images.shape[1]
    found = torch.conv2d(
        images, _picks(x, channels, kernel_size), None, stride, padding, dilation, channels
    ).flatten(2)
    return found if x.ndim == 4 else found.squeeze(0)


@lowers("col2im")
def col2im(
    ctx: LoweringContext,
    x: Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """The transposed convolution of ``im2col``."""
    blocks = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(output_size, padding, dilation, kernel_size, stride, strict=True)
    ]
    rest = [
        n - ((b - 1) * s - 2 * p + d * (k - 1) + 1)
        for n, b, p, d, k, s in zip(
            output_size, blocks, padding, dilation, kernel_size, stride, strict=True
        )
    ]
    columns = x if x.ndim == 3 else x.unsqueeze(0)
    channels = columns.shape[1] // math.prod(kernel_size)
    found = torch.conv_transpose2d(
        columns.reshape(*columns.shape[:2], *blocks),
        _picks(x, channels, kernel_size), None, stride, padding, rest, channels, dilation,
    )  # fmt: skip
    return found if x.ndim == 3 else found.squeeze(0)


def _picks(x: Tensor, channels: int, kernel_size: Sequence[int]) -> Tensor:
    """``[channels × places, 1, *kernel]``: one where the place is."""
    count = math.prod(kernel_size)
    one = torch.eye(count, dtype=x.dtype, device=x.device).reshape(count, 1, *kernel_size)
    return one.repeat(channels, 1, 1, 1)


@lowers("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    ctx: LoweringContext,
    x: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Tensor:
    """A product with a matrix of every number's weight in every sample; of finite numbers."""
    if interpolation_mode == _CUBIC:
        found: Tensor = ctx.origin_op(x, grid, interpolation_mode, padding_mode, align_corners)
        return found
    sizes = x.shape[2:]
    weights: Tensor | None = None
    for axis, size in enumerate(reversed(sizes)):  # the grid has the last dimension first
        at = grid[..., axis].reshape(grid.shape[0], -1, 1)
        at = ((at + 1) * (size - 1) / 2) if align_corners else ((at + 1) * size - 1) / 2
        at = _inside(at, size, padding_mode, align_corners)
        own = _weights(at, size, interpolation_mode)
        weights = own if weights is None else own.unsqueeze(-1) * weights.unsqueeze(-2)
        weights = weights.flatten(2)
    assert weights is not None
    samples = x.flatten(2) @ weights.transpose(1, 2)
    return samples.reshape(*x.shape[:2], *grid.shape[1:-1])


def _inside(at: Tensor, size: int, padding_mode: int, align_corners: bool) -> Tensor:
    """Coordinates brought back into the image, for the modes that do: border and reflection."""
    if padding_mode == _REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            return at * 0
        turns = (at - low).abs()
        turns = turns - 2 * span * (turns / (2 * span)).floor()
        at = low + span - (turns - span).abs()
    return at.clamp(0, size - 1) if padding_mode else at


def _weights(at: Tensor, size: int, mode: int) -> Tensor:
    """``[batch, samples, size]``: what each number along a dimension counts for each sample."""
    places = torch.arange(size, device=at.device).to(at.dtype)
    if mode == _NEAREST:
        return (places == at.round()).to(at.dtype)
    distance = (at - places).abs()
    return (1 - distance).clamp(min=0)
