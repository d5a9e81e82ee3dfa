"""Windows put back to an image, as ``torch.nn.functional.fold`` does: the parser has no ``Col2Im``.

Sizes of the image may come from a shape, and are then no numbers while a model is traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def pairs(*values: Any) -> list[tuple[Any, Any]]:
    """Return each value once for the height and once for the width.

    Example:
        >>> pairs(2, (3, 4))
        [(2, 2), (3, 4)]
    """
    return [tuple(each) if isinstance(each, tuple | list) else (each, each) for each in values]


def tiled(windows: Tensor, size: tuple[Any, Any], kernel: tuple[int, int]) -> Tensor:
    """Return the images of windows that lie side by side.

    Args:
        windows: As ``fold`` takes them.
        size: The image's height and width.
        kernel: A window's.
    """
    counts = [n // k for n, k in zip(size, kernel, strict=True)]
    split = windows.reshape(-1, *kernel, *counts).permute(0, 3, 1, 4, 2)
    image = split.reshape(-1, counts[0] * kernel[0], counts[1] * kernel[1])
    return _fitted(image, windows, size, (0, 0))


def added(
    windows: Tensor,
    size: tuple[Any, Any],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int],
    stride: tuple[int, int],
) -> Tensor:
    """Return the images where windows overlap: each spot of a window is a channel.

    A transposed convolution sets it down, and adds up what falls on the same pixel.

    Args:
        windows: As ``fold`` takes them.
        size: The image's height and width.
        kernel: A window's.
        dilation: The steps between its pixels.
        padding: The rows and columns around the image.
        stride: The steps between windows.
    """
    import torch

    each = zip(size, kernel, dilation, padding, stride, strict=True)
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in each]
    spots = kernel[0] * kernel[1]
    weight = torch.eye(spots, dtype=windows.dtype, device=windows.device)
    image = torch.nn.functional.conv_transpose2d(
        windows.reshape(-1, spots, *counts),
        weight.reshape(spots, 1, *kernel),
        stride=stride,
        dilation=dilation,
    )
    return _fitted(image[:, 0], windows, size, padding)


def _fitted(
    image: Tensor, windows: Tensor, size: tuple[Any, Any], padding: tuple[int, int]
) -> Tensor:
    """Cut the padding off, fill up what no window reaches, and separate batch and channels."""
    from torch.nn import functional

    (height, width), (top, left) = size, padding
    ends = (width + left - image.shape[-1], height + top - image.shape[-2])
    # Of an open size nobody knows whether something is left, whatever the example's is.
    if any(type(n) is not int or n for n in (top, left, *ends)):
        image = functional.pad(image, (-left, ends[0], -top, ends[1]))
    return image.reshape(*windows.shape[:-2], -1, height, width)
