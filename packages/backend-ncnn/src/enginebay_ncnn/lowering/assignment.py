"""Operators that change a tensor.

A lowered graph has none: the changed tensor goes by its old name, and whatever shared its memory is
made anew from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering import layout
from enginebay_ncnn.lowering.complex_numbers import Complex, as_complex, is_complex
from enginebay_ncnn.lowering.registry import UnsupportedError, as_float, sizes_of
from enginebay_ncnn.lowering.script import shares_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from enginebay_ncnn.lowering.script import Script, Step


def filled(step: Step, arguments: list[Any]) -> Tensor | Complex | None:
    """Return the tensor after ``copy_``, ``fill_`` or ``zero_``; None for other operators."""
    shape = tuple(arguments[0].shape)
    if step.kind == "aten::copy_":
        if any(map(is_complex, arguments[:2])):
            source = as_complex(arguments[1])
            return Complex(*(layout.lower_expand(x, shape) for x in (source.real, source.imag)))
        return layout.lower_expand(as_float(arguments[1]), shape)
    if step.kind == "aten::fill_":
        return torch.full(shape, float(arguments[1]))
    return torch.zeros(shape) if step.kind == "aten::zero_" else None


def write(
    script: Script,
    step: Step,
    result: Any,
    values: dict[str, Any],
    run: Callable[[Step], None],
) -> None:
    """Let a changed tensor, and all that shares its memory, be what they are from now on.

    Args:
        script: The graph.
        step: The step that changes its first argument.
        result: What that is afterwards.
        values: The values so far, which are changed.
        run: Runs one step again.
    """
    name: str | None = step.inputs[0]
    written = set(step.outputs)
    while name is not None:
        written.add(name)
        values[name] = result
        whole = script.view_of(name)
        if whole is not None:
            result = _put_back(script, name, values[whole], result, values)
        name = whole
    memory = script.values[step.inputs[0]]
    for earlier in script.steps:
        if earlier is step:
            return
        aliases = [n for n in earlier.outputs if shares_memory(script.values[n], memory)]
        if not aliases or not written.isdisjoint(aliases) or script.view_of(aliases[0]) is None:
            continue
        if earlier.assigns:  # it has been done; its result is its argument by another name
            values[aliases[0]] = values[earlier.inputs[0]]
        else:
            run(earlier)


def _put_back(script: Script, name: str, whole: Any, piece: Any, values: dict[str, Any]) -> Any:
    """A tensor with one piece of it replaced."""
    if is_complex(whole) or is_complex(piece):
        whole, piece = as_complex(whole), as_complex(piece)
        return Complex(
            _put_back(script, name, whole.real, piece.real, values),
            _put_back(script, name, whole.imag, piece.imag, values),
        )
    step = script.origin[name]
    place = 0
    if step.kind == "prim::ListUnpack":
        place = step.outputs.index(name)
        step = script.origin[step.inputs[0]]
    kind = step.kind.removeprefix("aten::")
    rest = [values[each] for each in step.inputs[1:]]
    if kind == "slice":
        return layout.lower_slice_scatter(whole, piece, *rest)
    if kind == "select":
        return layout.lower_select_scatter(whole, piece, *rest)
    if kind == "unbind":
        return layout.lower_select_scatter(whole, piece, rest[0], place)
    if kind == "narrow":
        dim, start, length = rest
        return layout.lower_slice_scatter(whole, piece, dim, start, start + length)
    if kind.removeprefix("unsafe_") in ("chunk", "split", "split_with_sizes", "tensor_split"):
        dim = rest[-1]
        sizes = [sizes_of(each)[dim] for each in script.values[script.origin[name].inputs[0]]]
        start = sum(sizes[:place])
        return layout.lower_slice_scatter(whole, piece, dim, start, start + sizes[place])
    if kind in ("transpose", "swapaxes", "swapdims"):
        return layout.lower_transpose(piece, *rest)
    if kind == "t":
        return layout.lower_t(piece)
    if kind == "permute":
        order = [layout.axis_of(piece, dim) for dim in rest[0]]
        return layout.lower_permute(piece, [order.index(axis) for axis in range(piece.ndim)])
    if sizes_of(piece) == sizes_of(whole) or kind in _RESHAPES:
        return layout.reshape(piece, sizes_of(whole))
    raise UnsupportedError(f"an assignment through aten::{kind}")


#: Pieces that have all elements, in their order.
_RESHAPES = frozenset(
    ("view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "_unsafe_view")
)
