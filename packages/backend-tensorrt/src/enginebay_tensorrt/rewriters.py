"""Rewriters for what the ONNX parsers of TensorRT and of TensorRT for RTX refuse.

Their tests show it with the parser and the builder of TensorRT for RTX. The parser of TensorRT has
the same source, https://github.com/onnx/onnx-tensorrt, where 10.1 takes ``NonZero`` alone of these.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from enginebay.authors import Context

#: For both backends, as each gets only what its own plugin returns.
rewriters = eb.RewriterSet()

#: A pooling window must have fewer elements.
_LARGEST_WINDOW = 100_000

#: The default dimensions of each transform; None for all.
_TRANSFORMS: dict[str, Any] = {
    "fft": -1,
    "ifft": -1,
    "rfft": -1,
    "fft2": (-2, -1),
    "ifft2": (-2, -1),
    "fftn": None,
    "ifftn": None,
}


def is_torchscript(target: Any) -> bool:
    """Return True for the TorchScript exporter, where the default one writes other operators."""
    exporter: str | None = target.exporter
    return exporter == "torchscript"


def writes_dft(target: Any) -> bool:
    """Return True but for the TorchScript exporter: for it core takes transforms apart itself."""
    return not is_torchscript(target)


@rewriters.function("torch.cat", ir="onnx")
@rewriters.function("torch.concat", ir="onnx")
@rewriters.function("torch.concatenate", ir="onnx")
def cat(ctx: Context, tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
    """Join bytes as int32: ``Concat`` takes no uint8, ``Cast`` takes it both ways."""
    import torch

    axis = kwargs.pop("axis", dim)
    if kwargs or any(tensor.dtype != torch.uint8 for tensor in tensors):
        return ctx.origin_func(tensors, axis, **kwargs)
    return ctx.origin_func([tensor.int() for tensor in tensors], axis).to(torch.uint8)


@rewriters.function("torch.nn.functional.interpolate", ir="onnx")
def interpolate(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Antialias by two matrix products, where height and width are numbers.

    While the TorchScript exporter traces they are not; it has nothing for such resizing anyway.
    """
    import torch

    from enginebay_tensorrt.resampling import scales, weights

    arguments = (size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if not (antialias and mode in ("bilinear", "bicubic") and input.dim() == 4):
        return ctx.origin_func(input, *arguments)
    height, width = input.shape[2:]
    sizes = [height, width, *(size if isinstance(size, tuple | list) else [size or 0])]
    if align_corners or not all(type(each) is int for each in sizes):
        return ctx.origin_func(input, *arguments)
    wanted, steps = scales((height, width), size, scale_factor, recompute_scale_factor)
    down, across = (
        torch.from_numpy(weights(n, m, step, mode)).to(input.dtype)
        for n, m, step in zip((height, width), wanted, steps, strict=True)
    )
    return down @ (input @ across.T)


@rewriters.function("torch.nn.functional.batch_norm", ir="onnx", check=is_torchscript)
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
) -> Any:
    """Normalise by the batch's own mean and variance in steps, where nothing is kept of them.

    Weights are standardised that way, and layers without ``track_running_stats``.
    """
    import torch

    if not training or running_mean is not None or running_var is not None:
        kept = (running_mean, running_var, weight, bias, training, momentum, eps)
        return ctx.origin_func(input, *kept)
    wide = input.to(torch.promote_types(input.dtype, torch.float32))
    axes = [0, *range(2, input.dim())]
    centred = wide - wide.mean(axes, keepdim=True)
    found = centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + eps)
    shape = [-1] + [1] * (input.dim() - 2)
    if weight is not None:
        found = found * weight.reshape(shape)
    if bias is not None:
        found = found + bias.reshape(shape)
    return found.to(input.dtype)


@rewriters.function("torch.nn.AvgPool2d.forward", ir="onnx")
def avg_pool(ctx: Context, self: Any, input: Tensor) -> Any:  # noqa: A002  # torch's name
    """Take the mean of the image where it is smaller than a window that is too large to build."""
    import torch

    from enginebay_tensorrt.windows import pairs

    kernel, padding = pairs(self.kernel_size, self.padding)
    sizes = input.shape[-2:]
    if (
        math.prod(kernel) < _LARGEST_WINDOW
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
) -> Any:
    """Put windows side by side, or add them up by a transposed convolution."""
    from enginebay_tensorrt.windows import added, pairs, tiled

    size, kernel, steps, pads, strides = pairs(output_size, kernel_size, dilation, padding, stride)
    if (kernel, (1, 1), (0, 0)) == (strides, steps, pads):
        return tiled(input, size, kernel)
    # The builder has no transposed convolution with a stride and a dilation.
    if not input.is_floating_point() or (steps != (1, 1) and strides != (1, 1)):
        return ctx.origin_func(input, output_size, kernel_size, dilation, padding, stride)
    return added(input, size, kernel, steps, pads, strides)


@rewriters.function("torch.masked_scatter", ir="onnx")
@rewriters.function("torch.Tensor.masked_scatter", ir="onnx")
def masked_scatter(
    ctx: Context,  # noqa: ARG001  # every rewriter takes it
    input: Tensor,  # noqa: A002  # torch's name
    mask: Tensor,
    source: Tensor,
) -> Any:
    """Count which element each place takes: TensorRT for RTX has no ``NonZero``."""
    import torch

    mask = mask | torch.zeros_like(input, dtype=torch.bool)  # in the shape that both broadcast to
    places = mask.reshape(-1).long().cumsum(0) - 1
    taken = source.reshape(-1)[places.clamp(min=0)]
    return torch.where(mask, taken.reshape(mask.shape), input)


def _transform(name: str, default: Any) -> Callable[..., Any]:
    def transform(
        ctx: Context,
        input: Tensor,  # noqa: A002  # torch's name
        length: Any = None,
        dim: Any = default,
        norm: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Multiply by one matrix for each dimension."""
        import torch

        from enginebay_tensorrt.fourier import transform

        exact = (torch.float32, torch.float64, torch.complex64, torch.complex128)
        given = [length, *kwargs.values()]
        if any(each is not None for each in given) or input.dtype not in exact:
            return ctx.origin_func(input, length, dim, norm, **kwargs)
        dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
        return transform(input, dims, norm, inverse="ifft" in name, onesided="rfft" in name)

    return transform


for _name, _dims in _TRANSFORMS.items():
    rewriters.function(f"torch.fft.{_name}", ir="onnx", check=writes_dft)(_transform(_name, _dims))
