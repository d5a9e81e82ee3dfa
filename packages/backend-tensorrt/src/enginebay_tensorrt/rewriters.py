"""Rewriters for operators that the ONNX parser of TensorRT or of TensorRT for RTX rejects.

The tests use the parser and the builder of TensorRT for RTX. The parser of TensorRT has the same
source, https://github.com/onnx/onnx-tensorrt. Of the operators that are rewritten here, the parser
of TensorRT 10.1 supports only ``NonZero``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor
    from torch.nn import AvgPool2d

    from enginebay.authors import Context

    Dims = int | Sequence[int] | None

#: The set names no backend, since two backends use it: their plugins return it from their hooks.
rewriters = eb.RewriterSet()

#: TensorRT builds only pooling windows with fewer elements.
_MAX_WINDOW_ELEMENTS = 100_000

#: The default dimensions of each Fourier transform; None means all dimensions.
_TRANSFORMS: dict[str, Dims] = {
    "fft": -1,
    "ifft": -1,
    "rfft": -1,
    "fft2": (-2, -1),
    "ifft2": (-2, -1),
    "fftn": None,
    "ifftn": None,
}


def is_torchscript_export(target: Any) -> bool:
    """Return True if torch's TorchScript exporter, and not the default exporter, is used."""
    exporter: str | None = target.exporter
    return exporter == "torchscript"


def writes_dft(target: Any) -> bool:
    """Return True if the exporter writes ``DFT``: every exporter except TorchScript's does."""
    return not is_torchscript_export(target)


@rewriters.function("torch.cat", ir="onnx")
@rewriters.function("torch.concat", ir="onnx")
@rewriters.function("torch.concatenate", ir="onnx")
def cat(ctx: Context, tensors: Sequence[Tensor], dim: int = 0, **kwargs: Any) -> object:
    """Concatenate uint8 tensors as int32, since TensorRT's ``Concat`` does not support uint8."""
    import torch

    axis = kwargs.pop("axis", dim)  # torch accepts NumPy's name too
    if kwargs or any(tensor.dtype != torch.uint8 for tensor in tensors):
        return ctx.origin_func(tensors, axis, **kwargs)
    return ctx.origin_func([tensor.int() for tensor in tensors], axis).to(torch.uint8)


@rewriters.function("torch.nn.functional.batch_norm", ir="onnx", check=is_torchscript_export)
def batch_norm(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> object:
    """Normalise by the mean and variance of the batch, without running statistics.

    Models use this for weight standardisation, and in layers without ``track_running_stats``.
    """
    import torch

    if not training or running_mean is not None or running_var is not None:
        unchanged = (running_mean, running_var, weight, bias, training, momentum, eps)
        return ctx.origin_func(input, *unchanged)
    wide = input.to(torch.promote_types(input.dtype, torch.float32))
    axes = [0, *range(2, input.dim())]
    centred = wide - wide.mean(axes, keepdim=True)
    normalized = centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + eps)
    shape = [-1] + [1] * (input.dim() - 2)
    if weight is not None:
        normalized = normalized * weight.reshape(shape)
    if bias is not None:
        normalized = normalized + bias.reshape(shape)
    return normalized.to(input.dtype)


@rewriters.function("torch.nn.AvgPool2d.forward", ir="onnx")
def avg_pool(ctx: Context, self: AvgPool2d, input: Tensor) -> object:  # noqa: A002  # torch's name
    """Replace pooling by a mean if the window is too large for TensorRT and covers the image."""
    import torch

    from enginebay_tensorrt.folding import make_pairs

    kernel, padding = make_pairs(self.kernel_size, self.padding)
    sizes = input.shape[-2:]
    if (
        math.prod(kernel) < _MAX_WINDOW_ELEMENTS
        or padding != (0, 0)
        or self.divisor_override
        or any(isinstance(size, torch.SymInt) for size in sizes)
        or not all(int(size) <= window for size, window in zip(sizes, kernel, strict=True))
    ):
        return ctx.origin_func(self, input)
    return input.mean((-2, -1), keepdim=True)


@rewriters.function("torch.nn.functional.fold", ir="onnx")
def fold(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> object:
    """Fold windows by a reshape, or by a transposed convolution if the windows overlap."""
    from enginebay_tensorrt.folding import fold_overlapping, fold_tiles, make_pairs

    size, kernel, steps, pads, strides = make_pairs(
        output_size, kernel_size, dilation, padding, stride
    )
    if (kernel, (1, 1), (0, 0)) == (strides, steps, pads):
        return fold_tiles(input, size, kernel)
    # The builder has no transposed convolution with both a stride and a dilation.
    if not input.is_floating_point() or (steps != (1, 1) and strides != (1, 1)):
        return ctx.origin_func(input, output_size, kernel_size, dilation, padding, stride)
    return fold_overlapping(input, size, kernel, steps, pads, strides)


@rewriters.function("torch.masked_scatter", ir="onnx")
@rewriters.function("torch.Tensor.masked_scatter", ir="onnx")
def masked_scatter(
    ctx: Context,  # noqa: ARG001  # the context of every rewriter
    input: Tensor,  # noqa: A002  # torch's name
    mask: Tensor,
    source: Tensor,
) -> Tensor:
    """Scatter by counting the mask's true elements, since TensorRT for RTX has no ``NonZero``."""
    import torch

    mask = mask | torch.zeros_like(input, dtype=torch.bool)  # in the broadcast shape
    indices = mask.reshape(-1).long().cumsum(0) - 1
    # Before the first true element, the index is -1; its value is not used.
    picked = source.reshape(-1)[indices.clamp(min=0)]
    return torch.where(mask, picked.reshape(mask.shape), input)


def _make_transform(name: str, default: Dims) -> Callable[..., object]:
    def multiply_by_dft(
        ctx: Context,
        input: Tensor,  # noqa: A002  # torch's name
        length: object = None,
        dim: Dims = default,
        norm: str | None = None,
        **kwargs: object,
    ) -> object:
        """Compute a Fourier transform as one matrix product for each dimension."""
        import torch

        from enginebay_tensorrt.fourier import multiply_by_dft

        # Other dtypes, and a length to which the signal is cut or padded, are left to torch.
        exact = (torch.float32, torch.float64, torch.complex64, torch.complex128)
        options = [length, *kwargs.values()]
        if any(option is not None for option in options) or input.dtype not in exact:
            return ctx.origin_func(input, length, dim, norm, **kwargs)
        dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
        return multiply_by_dft(input, dims, norm, inverse="ifft" in name, onesided="rfft" in name)

    return multiply_by_dft


for _name, _dims in _TRANSFORMS.items():
    rewriters.function(f"torch.fft.{_name}", ir="onnx", check=writes_dft)(
        _make_transform(_name, _dims)
    )
