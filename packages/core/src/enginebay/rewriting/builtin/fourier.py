"""Fourier transforms for the TorchScript exporter, which knows no complex numbers.

ONNX's ``DFT`` keeps them as real numbers with one more dimension. So do these symbolics, from a
transform to the operator that reads the parts; any other operator in between is refused.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.common import not_dynamo, rewriters

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.rewriting.rewriter import Context

#: The default dimensions of each transform; None for all.
_DIMS: dict[str, list[int] | None] = {
    "fft_fft": [-1],
    "fft_ifft": [-1],
    "fft_rfft": [-1],
    "fft_fft2": [-2, -1],
    "fft_ifft2": [-2, -1],
    "fft_fftn": None,
    "fft_ifftn": None,
}
#: The places of the real and the imaginary numbers in ``DFT``'s last dimension.
_PARTS = {"real": 0, "imag": 1}
_READERS = {f"aten::{name}" for name in (*_DIMS, *_PARTS, "view_as_real")}

#: The first operator set where the axis of ``DFT`` is an input.
_AXIS_IS_AN_INPUT = 20
#: The number of float32 in ``onnx.TensorProto``.
_FLOAT = 1


def transform(name: str, ctx: Context, g: Any, self: Any, *_: Any) -> Any:
    """Add a ``DFT`` for each dimension, then the scale."""
    node = g.original_node
    given, lengths = (node.inputsAt(index).type() for index in range(2))
    dims, norm = (_constant(node.inputsAt(index)) for index in (2, 3))
    sizes, rank = given.sizes(), given.dim()
    if lengths.kind() != "NoneType" or rank is None or not _is_read(node):
        raise _refused(g, "of given lengths, of open rank, or read as complex numbers")
    dims = _DIMS[name] if dims is None else [dims] if isinstance(dims, int) else dims
    axes = [axis % rank for axis in (range(rank) if dims is None else dims)]
    inverse, onesided = "ifft" in name, "rfft" in name
    signal = self if _is_complex(given) else _with_parts(g, self, given.scalarType())
    # A one-sided transform takes real numbers; torch has it along one dimension here.
    for axis in axes:
        signal = _dft(g, signal, axis, inverse_i=int(inverse), onesided_i=int(onesided))
    if norm in (None, "backward"):
        return signal
    if sizes is None or None in sizes:
        raise _refused(g, f"of open sizes with norm {norm!r}")
    return _scaled(g, signal, math.prod(sizes[axis] for axis in axes), norm, inverse=inverse)


def part(name: str, ctx: Context, g: Any, self: Any) -> Any:
    """Select the real or the imaginary numbers."""
    if not _is_complex(g.original_node.inputsAt(0).type()):
        return self  # torch has no imaginary part of real numbers
    import torch

    return g.op("Gather", self, g.op("Constant", value_t=torch.tensor(_PARTS[name])), axis_i=-1)


def view_as_real(ctx: Context, g: Any, self: Any) -> Any:
    """Return the output of ``DFT`` as it is."""
    return g.op("Identity", self)


def _dft(g: Any, signal: Any, axis: int, **attributes: int) -> Any:
    import torch

    if g.opset < _AXIS_IS_AN_INPUT:
        return g.op("DFT", signal, axis_i=axis, **attributes)
    nothing = g.op("prim::Constant")
    nothing.setType(torch._C.OptionalType.ofTensor())
    return g.op("DFT", signal, nothing, g.op("Constant", value_t=torch.tensor(axis)), **attributes)


def _with_parts(g: Any, self: Any, dtype: str | None) -> Any:
    """Add the last dimension of real numbers, of size one, that ``DFT`` wants."""
    import torch

    if dtype not in ("Float", "Double"):
        self = g.op("Cast", self, to_i=_FLOAT)
    return g.op("Unsqueeze", self, g.op("Constant", value_t=torch.tensor([-1])))


def _scaled(g: Any, signal: Any, size: int, norm: str, *, inverse: bool) -> Any:
    """Scale the numbers as ``norm`` says; ``DFT`` divides inverses by the size."""
    import torch

    factor = 1 / math.sqrt(size) if norm == "ortho" else 1 / size
    factor = factor * size if inverse and norm == "ortho" else size if inverse else factor
    scale = g.op("Constant", value_t=torch.tensor(factor, dtype=torch.float64))
    return g.op("Mul", signal, g.op("CastLike", scale, signal))


def _is_complex(type_: Any) -> bool:
    return "Complex" in (type_.scalarType() or "")


def _is_read(node: Any) -> bool:
    """Return True if every user of the complex numbers knows how they are kept."""
    return all(use.user.kind() in _READERS for use in node.output().uses())


def _constant(value: Any) -> Any:
    """Return the numbers or the text of a constant; None where it is None, or computed."""
    if value.node().kind() == "prim::ListConstruct":
        return [_constant(each) for each in value.node().inputs()]
    found = value.toIValue()
    return found.tolist() if hasattr(found, "tolist") else found  # numbers come as tensors


def _refused(g: Any, what: str) -> Exception:
    from torch.onnx.errors import SymbolicValueError

    node = g.original_node
    return SymbolicValueError(f"no '{node.kind()}' {what}", node.output())


def _declare() -> None:
    symbolics: dict[str, Callable[..., Any]] = {
        name: functools.partial(transform, name) for name in _DIMS
    }
    symbolics |= {name: functools.partial(part, name) for name in _PARTS}
    for name, symbolic in {**symbolics, "view_as_real": view_as_real}.items():
        rewriters.symbolic(name, is_pytorch=True, ir="onnx", check=not_dynamo)(symbolic)


_declare()
