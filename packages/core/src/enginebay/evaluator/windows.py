"""Operators for onnx's evaluator that slide a window: convolutions and poolings.

onnx's own convolution fills a dilated kernel up with zeros, to gigabytes. Its poolings loop over
the output in Python: 50 s for a network that takes an engine 0.1 s. Here one or some elements of
the window are a step, for all positions of the window at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.evaluator.operators import Arrays, Operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.tensors import NumpyArray


#: Numbers that stay in a processor's cache, and numbers that are copied for one product: 16 MB.
_CACHED, _COPIED = 1 << 16, 1 << 22


class _Axis(NamedTuple):
    """How a window slides along an axis; ``before`` and ``after`` are the padding."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    positions: int

    @property
    def end(self) -> int:
        """The end of the last position, with the padding before."""
        return (self.positions - 1) * self.stride + (self.kernel - 1) * self.dilation + 1


def _plan_axes(
    sizes: Sequence[int], *, kernel_shape: Sequence[int], auto_pad: str, **attributes: Any
) -> list[_Axis]:
    names = ("strides", "dilations")
    strides, dilations = (attributes.get(name) or [1] * len(sizes) for name in names)
    pads = np.reshape(attributes.get("pads") or [0, 0] * len(sizes), (2, -1)).T.tolist()
    plan = []
    for size, (before, after), *steps in zip(
        sizes, pads, kernel_shape, strides, dilations, strict=True
    ):
        width, stride, dilation = steps
        room = size + before + after - (width - 1) * dilation - 1
        if auto_pad.startswith("SAME"):
            positions = -(-size // stride)
            total = max((positions - 1) * stride - room, 0)
            before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            after = total - before
        elif attributes.get("ceil_mode"):
            # No window starts in the padding at the end.
            positions = min(-(-room // stride), (size + before - 1) // stride) + 1
        else:
            positions = room // stride + 1
        plan.append(_Axis(width, stride, dilation, before, after, positions))
    return plan


def _meet(axes: Sequence[_Axis], index: Sequence[int]) -> Any:
    """Return the index of what an element of the window meets in all positions."""
    starts = [axis.dilation * place for axis, place in zip(axes, index, strict=True)]
    return (
        ...,
        *(
            slice(start, start + (axis.positions - 1) * axis.stride + 1, axis.stride)
            for axis, start in zip(axes, starts, strict=True)
        ),
    )


def _slide(
    x: NumpyArray, axes: Sequence[_Axis], fill: float = 0
) -> Iterator[tuple[tuple[int, ...], NumpyArray]]:
    """Yield the index of each element of the window, and what it meets in all positions."""
    # With ceil_mode the last window may end beyond the padding.
    widths = [
        (axis.before, max(axis.after, axis.end - axis.before - size))
        for axis, size in zip(axes, x.shape[2:], strict=True)
    ]
    is_padded = np.any(widths)
    padded = np.pad(x, [(0, 0), (0, 0), *widths], constant_values=fill) if is_padded else x
    for index in np.ndindex(*(axis.kernel for axis in axes)):
        yield index, padded[_meet(axes, index)]


class Conv(Operator):
    """Products of matrices: a group's kernels, and what some of their elements meet."""

    def _run(
        self, x: NumpyArray, weight: NumpyArray, bias: Any = None, *, group: int, **attributes: Any
    ) -> Arrays:
        axes = _plan_axes(x.shape[2:], **{**attributes, "kernel_shape": weight.shape[2:]})
        wide = np.result_type(x, np.float32)
        kernel = weight.astype(wide, copy=False).reshape(group, -1, *weight.shape[1:])
        convolve = _convolve_planes if kernel.shape[1:3] == (1, 1) else _convolve_groups
        found = np.empty((len(x), *kernel.shape[:2], *(axis.positions for axis in axes)), wide)
        for item, output in zip(x.astype(wide, copy=False), found, strict=True):
            convolve(item, kernel, axes, output)
        found = found.reshape(len(x), -1, *found.shape[3:])
        if bias is not None:
            found += bias.reshape(-1, *[1] * len(axes))
        return (found.astype(x.dtype, copy=False),)


def _convolve_groups(
    x: NumpyArray, kernel: NumpyArray, axes: Sequence[_Axis], found: NumpyArray
) -> None:
    """Convolve the groups of an item's channels; the kernel is (groups, outputs, inputs, …)."""
    (groups, outputs, inputs), sizes = kernel.shape[:3], found.shape[2:]
    total = found.reshape(groups, outputs, -1)
    rows = np.moveaxis(kernel.reshape(groups, outputs, inputs, -1), 3, 2)
    elements = [met.reshape(groups, inputs, *sizes) for _, met in _slide(x[None], axes)]
    count = max(_COPIED // max(len(x) * total.shape[2], 1), 1)
    for start in range(0, len(elements), count):
        columns = np.stack(elements[start : start + count], 1)
        row = rows[:, :, start : start + count].reshape(groups, outputs, -1)
        column = columns.reshape(groups, row.shape[2], total.shape[2])
        if start == 0:
            np.matmul(row, column, out=total)
        else:
            total += row @ column


def _convolve_planes(
    x: NumpyArray, kernel: NumpyArray, axes: Sequence[_Axis], found: NumpyArray
) -> None:
    """Convolve each channel of an item with a kernel of its own."""
    total = found[:, 0]
    total[...] = 0
    count = max(_CACHED // max(total[0].size, 1), 1)
    for start in range(0, len(x), count):
        part = slice(start, start + count)
        for index, met in _slide(x[None, part], axes):
            place: Any = (part, 0, 0, *index)
            total[part] += met[0] * kernel[place].reshape(-1, *[1] * len(axes))


class ConvTranspose(Operator):
    """onnx's fails for groups and for ``output_shape``."""

    def _run(
        self, x: NumpyArray, weight: NumpyArray, bias: Any = None, *, group: int, **attributes: Any
    ) -> Arrays:
        rank = x.ndim - 2
        ones = [1] * rank
        steps = (attributes.get(name) or ones for name in ("strides", "dilations"))
        sizes = zip(weight.shape[2:], *steps, x.shape[2:], strict=True)
        axes = [
            _Axis(width, stride, dilation, 0, 0, size) for width, stride, dilation, size in sizes
        ]
        wide = np.result_type(x, np.float32)
        kernel = weight.astype(wide).reshape(group, -1, *weight.shape[1:])
        kernel = np.moveaxis(kernel, (0, 2, 1), (-3, -2, -1))
        rows = x.astype(wide).reshape(len(x), group, x.shape[1] // group, -1)
        cuts = _plan_cuts(axes, **attributes)
        room = [max(axis.end, stop) for axis, (_, stop) in zip(axes, cuts, strict=True)]
        found = np.zeros((len(x), group * weight.shape[1], *room), wide)
        for index in np.ndindex(*weight.shape[2:]):
            part: NumpyArray = kernel[index] @ rows
            found[_meet(axes, index)] += part.reshape(len(x), -1, *x.shape[2:])
        kept: Any = (..., *(slice(*cut) for cut in cuts))
        found = found[kept]
        shift = 0 if bias is None else bias.reshape(-1, *ones)
        return ((found + shift).astype(x.dtype),)


def _plan_cuts(
    axes: Sequence[_Axis],
    *,
    auto_pad: str,
    pads: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    **_: Any,
) -> list[tuple[int, int]]:
    """Return where the output of a transposed convolution starts and stops on each axis."""
    cuts = []
    for number, axis in enumerate(axes):
        end = axis.end + (output_padding[number] if output_padding else 0)
        before, after = (pads[number], pads[number + len(axes)]) if pads else (0, 0)
        start, stop = before, end - after
        if output_shape or auto_pad.startswith("SAME"):
            size = output_shape[number] if output_shape else axis.positions * axis.stride
            total = max(end - size, 0)
            start = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            stop = start + size
        cuts.append((start, stop))
    return cuts


class MaxPool(Operator):
    """onnx's shape is wrong where the padding is uneven."""

    def _run(self, x: NumpyArray, storage_order: int = 0, **attributes: Any) -> Arrays:
        axes = _plan_axes(x.shape[2:], **attributes)
        # The indices in the flat input, where one plane follows the other in any order.
        planes, inside = x.shape[:2], x.shape[2:]
        order: Any = "F" if storage_order else "C"
        flat = np.arange(np.prod(inside)).reshape(inside, order=order)
        starts = np.arange(np.prod(planes)).reshape(*planes, *[1] * len(inside)) * flat.size
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        pairs = zip(_slide(x, axes, lowest), _slide(starts + flat, axes), strict=True)
        (_, best), (_, which) = next(pairs)
        for (_, met), (_, places) in pairs:
            is_larger = met > best
            best, which = np.where(is_larger, met, best), np.where(is_larger, places, which)
        return (best, which)[: len(self.onnx_node.output)]


class GlobalMaxPool(Operator):
    """onnx's is for images only."""

    def _run(self, x: NumpyArray) -> Arrays:
        return (x.max(tuple(range(2, x.ndim)), keepdims=True),)


class AveragePool(Operator):
    """The average, over the padding too with ``count_include_pad``."""

    def _run(self, x: NumpyArray, count_include_pad: int, **attributes: Any) -> Arrays:
        axes = _plan_axes(x.shape[2:], **attributes)
        counted, plain = np.ones((1, 1, *x.shape[2:]), x.dtype), axes
        if count_include_pad:
            widths = [(axis.before, axis.after) for axis in axes]
            counted = np.pad(counted, [(0, 0), (0, 0), *widths], constant_values=1)
            plain = [axis._replace(before=0, after=0) for axis in axes]
        total = sum(met for _, met in _slide(x, axes))
        return (np.asarray(total / sum(met for _, met in _slide(counted, plain))).astype(x.dtype),)


class LpPool(Operator):
    """onnx's is wrong with ``ceil_mode``."""

    def _run(self, x: NumpyArray, p: int, **attributes: Any) -> Arrays:
        powers = _slide(np.abs(x) ** p, _plan_axes(x.shape[2:], **attributes))
        return (np.asarray(sum(met for _, met in powers) ** (1 / p)).astype(x.dtype),)
