"""The open dimensions of an exported program, which were fixed when it was captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import UsageError
from enginebay.models.dynamic import DynamicDim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.export import ExportedProgram

    from enginebay.models.dynamic import DynamicShapes
    from enginebay.tensors import TensorSpec


def captured_dimensions(
    program: ExportedProgram, inputs: Sequence[TensorSpec], named: Sequence[TensorSpec] = ()
) -> DynamicShapes:
    """The dimensions that are open in a program.

    Args:
        program: The program.
        inputs: Its input tensors, in order, by the names that callers use.
        named: The same inputs with names for their open dimensions, where somebody has any:
            the program itself calls them ``s0``, ``s27``.
    """
    shapes = _shapes(program)
    if len(shapes) != len(inputs):
        return {}
    names: dict[Any, str] = {}
    dims: DynamicShapes = {}
    for index, (spec, shape) in enumerate(zip(inputs, shapes, strict=True)):
        own = named[index].dims if index < len(named) else None
        for axis, size in enumerate(shape):
            symbol = _symbol(size)
            if symbol is None:
                continue
            name = str(own[axis]) if own else f"{spec.name}_{axis}"
            name = names.setdefault(symbol, name if name.isidentifier() else f"dim_{len(names)}")
            limits = program.range_constraints.get(symbol)
            dims.setdefault(spec.name, {})[axis] = DynamicDim(name, *_limits(limits))
    return dims


def check_captured(dynamic: DynamicShapes, captured: DynamicShapes) -> None:
    """Refuse to open a dimension that a program has fixed.

    Raises:
        UsageError: Names the dimension.
    """
    for name, axes in dynamic.items():
        for axis, dim in axes.items():
            if dim.min != dim.max and axis not in captured.get(name, {}):
                raise UsageError(
                    f"dimension '{dim.name}' (axis {axis} of '{name}') was fixed when the "
                    "exported program was captured",
                    hint="pass dynamic_shapes to torch.export.export, or export the model itself",
                )


def _shapes(program: ExportedProgram) -> list[Sequence[Any]]:
    import torch

    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    found = [values.get(str(name)) for name in program.graph_signature.user_inputs]
    return [value.shape for value in found if isinstance(value, torch.Tensor)]


def _symbol(size: Any) -> Any:
    """The symbol of an open size; None for a fixed one, and for one that follows others."""
    expression = None if isinstance(size, int) else size.node.expr
    return expression if getattr(expression, "is_Symbol", False) else None


def _limits(limits: Any) -> tuple[int, int | None]:
    """The smallest and the largest size; torch writes "no limit" as a symbolic infinity."""
    if limits is None:
        return 1, None
    largest = limits.upper
    return max(int(limits.lower), 1), int(largest) if largest.is_Integer else None
