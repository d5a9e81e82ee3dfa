"""ONNX Runtime's names of dtypes, and those of them that arrays can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay import TensorSpec
from enginebay.errors import ConversionError

if TYPE_CHECKING:
    import onnxruntime

#: The numbers of ``TensorProto.DataType`` in ONNX.
ELEMENT_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
}
#: Every dtype that inputs and outputs may have.
SUPPORTED = (*ELEMENT_TYPES, "string")
_RENAMED = {"float": "float32", "double": "float64"}


def read_specs(
    session: onnxruntime.InferenceSession,
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return a session's inputs and outputs.

    Raises:
        ConversionError: One of them is no tensor (a sequence, a map, an optional), or no array
            has its dtype.
    """
    inputs = tuple(_spec("input", node) for node in session.get_inputs())
    return inputs, tuple(_spec("output", node) for node in session.get_outputs())


def _spec(kind: str, node: Any) -> TensorSpec:
    inner = node.type.removeprefix("tensor(").removesuffix(")")
    dtype = _RENAMED.get(inner, inner)
    if dtype not in SUPPORTED:
        raise ConversionError(
            f"{kind} '{node.name}' of the model is a {node.type}: "
            f"wanted a tensor of {', '.join(SUPPORTED)}",
            hint="convert it inside the model, as in ConcatFromSequence or Cast",
        )
    return TensorSpec(node.name, dtype, _dims(node))


def _dims(node: Any) -> tuple[int | str, ...] | None:
    # ONNX Runtime gives no dims for a scalar and for an unknown rank alike.
    if not node.shape:
        return None
    # A dimension without a name gets one of its own, since no other has to be of its size.
    return tuple(
        dim if isinstance(dim, int) else dim or f"{node.name}_{axis}"
        for axis, dim in enumerate(node.shape)
    )
