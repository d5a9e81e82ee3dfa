"""Fold windows into images, like ``torch.nn.functional.fold``: TensorRT has no ``Col2Im``.

The sizes have type ``Any``: in a trace, a size from another tensor's shape is not an int.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def make_pairs(*values: Any) -> list[tuple[Any, Any]]:
    """Return each value as a pair of numbers, for height and width.

    Example:
        >>> make_pairs(2, (3, 4))
        [(2, 2), (3, 4)]
    """
    return [tuple(value) if isinstance(value, tuple | list) else (value, value) for value in values]


def fold_tiles(windows: Tensor, size: tuple[Any, Any], kernel: tuple[int, int]) -> Tensor:
    """Arrange windows that do not overlap into an image, and return the image.

    Args:
        windows: The input of ``torch.nn.functional.fold``: each column is a window.
        size: The image's height and width.
        kernel: The height and width of a window.
    """
    counts = [n // k for n, k in zip(size, kernel, strict=True)]
    split = windows.reshape(-1, *kernel, *counts).permute(0, 3, 1, 4, 2)
    image = split.reshape(-1, counts[0] * kernel[0], counts[1] * kernel[1])
    return _crop_image(image, windows, size, (0, 0))


def fold_overlapping(
    windows: Tensor,
    size: tuple[Any, Any],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int],
    stride: tuple[int, int],
) -> Tensor:
    """Arrange windows into an image, and return the image; where windows overlap, add the pixels.

    Args:
        windows: The input of ``torch.nn.functional.fold``: each column is a window.
        size: The image's height and width.
        kernel: The height and width of a window.
        dilation: The vertical and horizontal distance between the pixels of a window.
        padding: The number of rows and of columns that pad each side of the image.
        stride: The vertical and horizontal distance between windows.
    """
    import torch

    axes = zip(size, kernel, dilation, padding, stride, strict=True)
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in axes]
    # Each position in a window is a channel. The transposed convolution places the channels in the
    # image and adds those that fall on the same pixel.
    positions = kernel[0] * kernel[1]
    weight = torch.eye(positions, dtype=windows.dtype, device=windows.device)
    image = torch.nn.functional.conv_transpose2d(
        windows.reshape(-1, positions, *counts),
        weight.reshape(positions, 1, *kernel),
        stride=stride,
        dilation=dilation,
    )
    return _crop_image(image[:, 0], windows, size, padding)


def _crop_image(
    image: Tensor, windows: Tensor, size: tuple[Any, Any], padding: tuple[int, int]
) -> Tensor:
    """Crop or pad an image to ``size``; return it with the shape (batch, channels, height, width).

    The result has no batch dimension if ``windows`` has none.
    """
    from torch.nn import functional

    (height, width), (top, left) = size, padding
    ends = (width + left - image.shape[-1], height + top - image.shape[-2])
    # A dynamic size may need the padding even if the example does not.
    if any(type(n) is not int or n for n in (top, left, *ends)):
        image = functional.pad(image, (-left, ends[0], -top, ends[1]))
    return image.reshape(*windows.shape[:-2], -1, height, width)
