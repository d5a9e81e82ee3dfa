"""Reads the names, dtypes and dimensions of a session's inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay import TensorSpec
from enginebay.errors import ConversionError

if TYPE_CHECKING:
    import onnxruntime

#: The values of ONNX's enum ``TensorProto.DataType``, by NumPy's dtype names.
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
#: A map is a classifier's probabilities by class, as scikit-learn's converters write them.
_WITHOUT_MAPS = (
    "export the model without ZipMap: skl2onnx.to_onnx(model, X, options={'zipmap': False})"
)
#: NumPy's names of the dtypes that ONNX Runtime names differently.
_RENAMED = {"float": "float32", "double": "float64"}


def read_specs(
    session: onnxruntime.InferenceSession,
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the specs (name, dtype, dimensions) of a session's inputs, and those of the outputs.

    Raises:
        ConversionError: An input or output is not a tensor but a sequence, a map or an optional,
            or its dtype is not supported.
    """
    inputs = tuple(_read_spec("input", node) for node in session.get_inputs())
    return inputs, tuple(_read_spec("output", node) for node in session.get_outputs())


def _read_spec(kind: str, node: onnxruntime.NodeArg) -> TensorSpec:
    inner = node.type.removeprefix("tensor(").removesuffix(")")
    dtype = _RENAMED.get(inner, inner)
    if dtype not in SUPPORTED:
        raise ConversionError(
            f"wrong type of {kind} '{node.name}' of the model: "
            f"expected a tensor of {', '.join(SUPPORTED)}, found {node.type}",
            hint=_WITHOUT_MAPS
            if "map(" in node.type
            else f"convert the {kind} inside the model, with ConcatFromSequence or Cast",
        )
    return TensorSpec(node.name, dtype, _read_dims(node))


def _read_dims(node: onnxruntime.NodeArg) -> tuple[int | str, ...] | None:
    # ONNX Runtime returns an empty shape both for a scalar and for an unknown rank.
    if not node.shape:
        return None
    # A dimension without a name gets a unique one: no other dimension must have its size.
    return tuple(
        dim if isinstance(dim, int) else dim or f"{node.name}_{axis}"
        for axis, dim in enumerate(node.shape)
    )
