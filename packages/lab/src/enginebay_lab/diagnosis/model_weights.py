"""The weights in an ONNX file, and whether those of another file were rounded from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.authors.arrays import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import onnx

    from enginebay.authors.arrays import NumpyArray

#: How one weight may be made from another, from the finest to the coarsest → the dtype, its
#: relative spacing, and the error of its smallest numbers, to which converters clip. "equal" allows
#: one spacing, since constants may be folded anew.
_ROUNDINGS = {
    "equal": ("float32", 2.0**-23, 2.0**-149),
    "rounded to float16": ("float16", 2.0**-10, 2.0**-23),
    "rounded to bfloat16": ("bfloat16", 2.0**-7, 2.0**-126),
}

#: The relations that :func:`find_relation` returns, from the finest to the coarsest.
RELATIONS = (*_ROUNDINGS, "quantised")

_SUFFIX = "_quantized"  # ONNX Runtime's quantiser adds it to the name of a weight


class Weight(NamedTuple):
    """A tensor of floats with at least two elements.

    Attributes:
        dtype: The dtype in the file.
        values: The values; those of a quantised tensor are multiplied by its scale.
        step: The scale of a quantised tensor, which can be broadcast to it; 0 for floats.
    """

    dtype: str
    values: NumpyArray
    step: NumpyArray

    @property
    def layouts(self) -> tuple[Weight, Weight]:
        """The weight and its transpose: a Gemm may become a MatMul."""
        return self, self._replace(values=self.values.T, step=self.step.T)


def read_weights(path: Path) -> dict[str, Weight]:
    """Return the weights in an ONNX file by name, without the scales of quantised ones.

    Args:
        path: The file, whose external data must have been checked.
    """
    import onnx

    graphs = [*walk_graphs(onnx.load(path).graph)]
    nodes = [node for graph in graphs for node in graph.node]
    tensors = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                tensors[node.output[0]] = attribute.t
    arrays = {name: onnx.numpy_helper.to_array(tensor) for name, tensor in tensors.items()}
    weights: dict[str, Weight] = {}
    scales = set()
    for node in nodes:
        for index, name in enumerate(node.input):
            if name in arrays and arrays[name].dtype.name in ("int8", "uint8", "int16", "int32"):
                scale, zero = _find_scale(node, index, arrays)
                if not scale:
                    continue
                scales.add(scale)
                if weight := _dequantise(node, arrays[name], arrays[scale], arrays.get(zero)):
                    weights[name.removesuffix(_SUFFIX)] = weight
    floats = ("float16", "bfloat16", "float32", "float64")
    for name, array in arrays.items():
        if array.dtype.name in floats and name not in scales:
            weights[name] = Weight(array.dtype.name, array, np.zeros((), "float32"))
    return {name: weight for name, weight in weights.items() if weight.values.size > 1}


def find_relation(left: Weight, right: Weight) -> str:
    """Return how one of two weights was made from the other: one of RELATIONS, or ""."""
    for other in right.layouts:
        if left.values.shape == other.values.shape:
            # A few elements tell most weights apart.
            corner = tuple(slice(8) for _ in left.values.shape)
            if _relate(left, other, corner) and (relation := _relate(left, other, ...)):
                return relation
    return ""


def measure_difference(left: Weight, right: Weight) -> float | None:
    """Return the largest difference of an element; None if the shapes differ."""
    with np.errstate(invalid="ignore"):  # the difference of two infinities
        errors = (
            float(np.abs(left.values - other.values.astype("float32")).max())
            for other in right.layouts
            if other.values.shape == left.values.shape
        )
        return min(errors, default=None)


def _relate(left: Weight, right: Weight, part: Any) -> str:
    ours, theirs = (weight.values[part].astype("float32") for weight in (left, right))
    for relation, rounding in _ROUNDINGS.items():
        if _is_rounded(ours, theirs, *rounding):
            return relation
    step = np.broadcast_to(np.maximum(left.step, right.step), left.values.shape)[part]
    # A whole step: a rounded zero point moves one end of the range.
    is_near = np.abs(ours - theirs) <= step * 1.01 + np.abs(ours) * 2.0**-10
    return "quantised" if step.any() and is_near.all() else ""


def _is_rounded(
    ours: NumpyArray, theirs: NumpyArray, dtype: str, relative: float, absolute: float
) -> bool:
    """Return True if two arrays are equal but for the rounding of one of them to a dtype."""
    if dtype != "float32":
        from ml_dtypes import finfo

        kind = numpy_dtype(dtype)
        largest = float(finfo(kind).max)
        ours, theirs = (np.clip(array, -largest, largest) for array in (ours, theirs))
        rounded = (array.astype(kind).astype("float32") for array in (ours, theirs))
        if not any(map(np.array_equal, rounded, (ours, theirs))):
            return False
    return np.allclose(ours, theirs, relative, absolute, equal_nan=True)


def walk_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph, and those in the attributes of its nodes: branches and the bodies of loops."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from walk_graphs(inner)


def _find_scale(
    node: onnx.NodeProto, index: int, arrays: Mapping[str, NumpyArray]
) -> tuple[str, str]:
    """Return the names of the scale and the zero point of a node's input; "" if it has none."""
    scale, zero = [*node.input[index + 1 : index + 3], "", ""][:2]
    if scale not in arrays or not arrays[scale].dtype.name.startswith("float"):
        # A product after a MatMulInteger or a ConvInteger has the scale.
        stem = node.input[index].removesuffix(_SUFFIX)
        scale, zero = f"{stem}_scale", f"{stem}_zero_point"
    return (scale, zero) if scale in arrays else ("", "")


def _dequantise(
    node: onnx.NodeProto, codes: NumpyArray, scale: NumpyArray, zero: NumpyArray | None
) -> Weight | None:
    """Return a quantised tensor as a weight; None if it has scales for blocks of elements."""
    axis = 0 if "Conv" in node.op_type else -1
    if node.op_type == "DequantizeLinear":
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    shape = [1] * codes.ndim
    if scale.size > 1:
        if scale.ndim > 1 or codes.shape[axis % codes.ndim] != scale.size:
            return None
        shape[axis] = scale.size
    step = scale.astype("float32").reshape(shape)
    offset = 0.0 if zero is None else zero.astype("float32").reshape(step.shape)
    return Weight(codes.dtype.name, (codes.astype("float32") - offset) * step, step)
