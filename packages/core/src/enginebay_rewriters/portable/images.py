"""Lowerings of resizing, pooling, padding and sampling of images.

An operator that is applied to one dimension after the other becomes one matrix product for each
dimension.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay_rewriters.portable.common import cat_parts, lowers, torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext

#: torch's codes for the modes of ``grid_sample``: two for interpolation, one for padding.
_NEAREST, _CUBIC, _REFLECTION = 1, 2, 2


def _apply_separable(
    x: Tensor, sizes: Sequence[int], resize_axis: Callable[[int, Tensor], Tensor]
) -> Tensor:
    """Return an image resized by a linear operator, with one matrix product per dimension.

    Args:
        x: The image.
        sizes: The new sizes of the last dimensions; the operator resizes only these dimensions.
        resize_axis: A function that applies the operator to one dimension. It takes the index of
            the dimension in ``sizes``, and an image; it returns the resized image.
    """
    for position, new_size in enumerate(sizes):
        dim = position - len(sizes)
        size = x.shape[dim]
        shape = [size if axis == position else 1 for axis in range(len(sizes))]
        unit = torch.eye(size, dtype=x.dtype, device=x.device).reshape(1, size, *shape)
        # The operator's result for an identity matrix is its matrix, which is a constant.
        matrix = resize_axis(position, unit).reshape(size, new_size)
        x = (x.movedim(dim, -1) @ matrix).movedim(-1, dim)
    return x


def _lower_upsampling(dims: int, corners: bool) -> Callable[..., Tensor]:
    def lowering(ctx: LoweringContext, x: Tensor, size: Sequence[int], *args: object) -> Tensor:
        if not x.dtype.is_floating_point:
            result: Tensor = ctx.origin_op(x, size, *args)
            return result
        flags, scales = (args[:1], args[1:]) if corners else ((), args)

        def resize_axis(position: int, unit: Tensor) -> Tensor:
            factors = [scale if axis == position else None for axis, scale in enumerate(scales)]
            sizes = [n if axis == position else 1 for axis, n in enumerate(size)]
            result: Tensor = ctx.origin_op(unit, sizes, *flags, *factors)
            return result

        return _apply_separable(x, size, resize_axis)

    return lowering


for _name, _dims, _corners in (
    *((f"upsample_nearest{dims}d", dims, False) for dims in (1, 2, 3)),
    *((f"_upsample_nearest_exact{dims}d", dims, False) for dims in (1, 2, 3)),
    # torch.export decomposes the two-dimensional operators itself.
    *(("upsample_linear1d", 1, True), ("upsample_trilinear3d", 3, True)),
):
    lowers(f"{_name}.default")(_lower_upsampling(_dims, _corners))


def _lower_antialiased(is_vec: bool) -> Callable[..., Tensor]:
    """Return the lowering of resizing with ``antialias``.

    Args:
        is_vec: Whether the overload is ``vec``, which takes both scale factors in one list.
    """

    def lowering(
        ctx: LoweringContext, x: Tensor, size: Sequence[int] | None, corners: bool, *args: Any
    ) -> Tensor:
        scales = (args[0] if is_vec else args) or (None, None)
        fixed = [*x.shape[-2:], *(size or ())]
        if not x.dtype.is_floating_point or any(type(length) is not int for length in fixed):
            result: Tensor = ctx.origin_op(x, size, corners, *args)
            return result
        for axis, dim in enumerate((-2, -1)):
            length = x.shape[dim]
            # As in _apply_separable, but with two elements in the other dimension, because torch
            # 2.13 resizes an image of width one wrongly.
            shape, wide = ([length if n == axis else other for n in (0, 1)] for other in (1, 2))
            unit = torch.eye(length, dtype=x.dtype, device=x.device)
            unit = unit.reshape(1, length, *shape).expand(1, length, *wide).contiguous()
            sizes = [size[axis] if n == axis else 2 for n in (0, 1)] if size else None
            factors = [scales[axis] if n == axis else 1.0 for n in (0, 1)]
            tail = [None if sizes else factors] if is_vec else factors
            resized = ctx.origin_op(unit, sizes, corners, *tail)
            matrix = resized.select(-1 if axis == 0 else -2, 0).squeeze(0)
            x = (x.movedim(dim, -1) @ matrix).movedim(-1, dim)
        return x

    return lowering


for _mode in ("bilinear", "bicubic"):
    # A captured graph has the overload ``vec``, and TorchScript ``default``.
    for _overload in ("vec", "default"):
        lowers(f"_upsample_{_mode}2d_aa.{_overload}", open_sizes=True)(
            _lower_antialiased(_overload == "vec")
        )


@lowers("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(ctx: LoweringContext, x: Tensor, output_size: Sequence[int]) -> Tensor:
    for position, count in enumerate(output_size):
        dim = position - len(output_size)
        size = x.shape[dim]
        start, end = _adaptive_windows(size, count)
        rows = torch.arange(size).unsqueeze(-1)
        inside = (rows >= start) & (rows < end)
        matrix = inside.to(x.dtype) / (end - start).to(x.dtype)
        x = (x.movedim(dim, -1) @ matrix).movedim(-1, dim)
    return x


def _adaptive_windows(size: int, count: int) -> tuple[Tensor, Tensor]:
    # Window i of n over s elements is [⌊i·s/n⌋, ⌈(i + 1)·s/n⌉), as in torch.
    positions = torch.arange(count)
    return positions * size // count, ((positions + 1) * size + count - 1) // count


@lowers("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(
    ctx: LoweringContext, x: Tensor, output_size: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Pool one dimension after the other; return the maxima and the flat indices of the maxima."""
    sizes = x.shape[x.ndim - len(output_size) :]
    positions = (
        torch.arange(math.prod(sizes), device=x.device).reshape(tuple(sizes)).expand(x.shape)
    )
    # A window's maximum is the maximum of the maxima of its rows.
    for axis in reversed(range(len(sizes))):
        dim = x.ndim - len(sizes) + axis
        values, result = [], []
        for position in range(output_size[axis]):
            start = position * sizes[axis] // output_size[axis]
            length = -(-(position + 1) * sizes[axis] // output_size[axis]) - start
            value, at = x.narrow(dim, start, length).max(dim, keepdim=True)
            values.append(value)
            result.append(positions.narrow(dim, start, length).gather(dim, at))
        x, positions = cat_parts(values, dim), cat_parts(result, dim)
    return x, positions


@lowers("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(ctx: LoweringContext, x: Tensor, padding: Sequence[int]) -> Tensor:
    return _pad_by_index(x, padding, lambda positions, last: last - (last - positions.abs()).abs())


@lowers("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(ctx: LoweringContext, x: Tensor, padding: Sequence[int]) -> Tensor:
    return _pad_by_index(x, padding, lambda positions, last: positions.clamp(0, last))


def _pad_by_index(
    x: Tensor, padding: Sequence[int], inside: Callable[[Tensor, int], Tensor]
) -> Tensor:
    """Pad an image by an index lookup.

    ``inside`` takes all positions along a padded dimension, which are negative before the image,
    and the last position inside the image. It returns, for each position, the position of the
    pixel to copy.
    """
    for position in range(len(padding) // 2):
        dim = x.ndim - 1 - position
        before, after = padding[2 * position : 2 * position + 2]
        positions = torch.arange(-before, x.shape[dim] + after, device=x.device)
        x = x.index_select(dim, inside(positions, x.shape[dim] - 1))
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
    """Convolve with one kernel for each position in the sliding window.

    The kernel selects the pixel at this position.
    """
    images = x if x.ndim == 4 else x.unsqueeze(0)
    channels = images.shape[1]
    result = torch.conv2d(
        images,
        _selecting_kernels(x, channels, kernel_size),
        None,
        stride,
        padding,
        dilation,
        channels,
    ).flatten(2)
    return result if x.ndim == 4 else result.squeeze(0)


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
    """Apply a transposed convolution with the kernels of ``im2col``."""
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
    result = torch.conv_transpose2d(
        columns.reshape(*columns.shape[:2], *blocks),
        _selecting_kernels(x, channels, kernel_size),
        stride=stride,
        padding=padding,
        output_padding=rest,
        groups=channels,
        dilation=dilation,
    )
    return result if x.ndim == 3 else result.squeeze(0)


def _selecting_kernels(x: Tensor, channels: int, kernel_size: Sequence[int]) -> Tensor:
    """Return a kernel for each channel and window position: 1 at this position, 0 elsewhere."""
    count = math.prod(kernel_size)
    kernels = torch.eye(count, dtype=x.dtype, device=x.device).reshape(count, 1, *kernel_size)
    return kernels.repeat(channels, 1, 1, 1)


@lowers("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    ctx: LoweringContext,
    x: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Tensor:
    """Compute samples as weighted sums of all pixels, which must be finite, by a matrix product."""
    if interpolation_mode == _CUBIC:
        result: Tensor = ctx.origin_op(x, grid, interpolation_mode, padding_mode, align_corners)
        return result
    sizes = x.shape[2:]
    weights: Tensor | None = None
    for axis, size in enumerate(reversed(sizes)):  # the grid has the last dimension first
        at = grid[..., axis].reshape(grid.shape[0], -1, 1)
        at = ((at + 1) * (size - 1) / 2) if align_corners else ((at + 1) * size - 1) / 2
        at = _pad_coordinates(at, size, padding_mode, align_corners)
        added = _interpolation_weights(at, size, interpolation_mode)
        weights = added if weights is None else added.unsqueeze(-1) * weights.unsqueeze(-2)
        weights = weights.flatten(2)
    assert weights is not None
    samples = x.flatten(2) @ weights.transpose(1, 2)
    return samples.reshape(*x.shape[:2], *grid.shape[1:-1])


def _pad_coordinates(at: Tensor, size: int, padding_mode: int, align_corners: bool) -> Tensor:
    """Return pixel coordinates, moved into the image by the padding mode border or reflection.

    For the padding mode zeros, the coordinates are returned unchanged.
    """
    if padding_mode == _REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            return at * 0
        turns = (at - low).abs()
        turns = turns - 2 * span * (turns / (2 * span)).floor()
        at = low + span - (turns - span).abs()
    return at.clamp(0, size - 1) if padding_mode else at


def _interpolation_weights(at: Tensor, size: int, mode: int) -> Tensor:
    """Return the weight of every pixel along one dimension for every sample.

    Args:
        at: The pixel coordinate of each sample, ``[batch, samples, 1]``.
        size: The number of pixels along the dimension.
        mode: torch's number for the interpolation mode: 0 for bilinear, 1 for nearest.

    Returns:
        The weights, ``[batch, samples, size]``.
    """
    positions = torch.arange(size, device=at.device).to(at.dtype)
    if mode == _NEAREST:
        return (positions == at.round()).to(at.dtype)
    distance = (at - positions).abs()
    return (1 - distance).clamp(min=0)
