"""The dynamic dimensions with which an exported program was captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import UsageError
from enginebay.params import DynamicDim

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.export import ExportedProgram

    from enginebay.params import DynamicShapes
    from enginebay.tensors import TensorSpec


def captured_dimensions(
    program: ExportedProgram, inputs: Sequence[TensorSpec], named: Sequence[TensorSpec] = ()
) -> DynamicShapes:
    """Return the dynamic dimensions of an exported program.

    Args:
        program: The program.
        inputs: The specs of the program's input tensors, in order, with the names callers use.
        named: The same specs with names of dynamic dimensions, if known. By default, a dimension
            gets a name such as ``x_0``: the program itself has only symbols such as ``s27``.
    """
    shapes = _input_shapes(program)
    if len(shapes) != len(inputs):
        return {}
    names: dict[object, str] = {}
    dims: DynamicShapes = {}
    for index, (spec, shape) in enumerate(zip(inputs, shapes, strict=True)):
        dim_names = named[index].dims if index < len(named) else None
        for axis, size in enumerate(shape):
            symbol = _size_symbol(size)
            if symbol is None:
                continue
            name = str(dim_names[axis]) if dim_names else f"{spec.name}_{axis}"
            name = names.setdefault(symbol, name if name.isidentifier() else f"dim_{len(names)}")
            limits = program.range_constraints.get(symbol)
            dims.setdefault(spec.name, {})[axis] = DynamicDim(name, *_read_limits(limits))
    return dims


def check_captured(dynamic: DynamicShapes, captured: DynamicShapes) -> None:
    """Check that each dimension requested as dynamic is dynamic in the exported program.

    Raises:
        UsageError: A dimension is fixed; the message names it.
    """
    for name, axes in dynamic.items():
        for axis, dim in axes.items():
            if dim.min != dim.max and axis not in captured.get(name, {}):
                raise UsageError(
                    f"dimension '{dim.name}' (axis {axis} of '{name}') was fixed when the "
                    "exported program was captured",
                    hint="pass dynamic_shapes to torch.export.export, or export the model itself",
                )


def _input_shapes(program: ExportedProgram) -> list[torch.Size]:
    import torch

    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs = [values.get(str(name)) for name in program.graph_signature.user_inputs]
    return [value.shape for value in inputs if isinstance(value, torch.Tensor)]


def _size_symbol(size: int | torch.SymInt) -> object:
    """Return the symbol of a dynamic size; None for a number or an expression like ``s0 + 1``."""
    expression = None if isinstance(size, int) else size.node.expr
    return expression if getattr(expression, "is_Symbol", False) else None


def _read_limits(limits: Any) -> tuple[int, int | None]:
    if limits is None:
        return 1, None
    largest = limits.upper  # sympy's infinity, which is not an Integer, if unlimited
    # torch's minimum is 0 by default, that of DynamicDim is 1.
    return max(int(limits.lower), 1), int(largest) if largest.is_Integer else None
