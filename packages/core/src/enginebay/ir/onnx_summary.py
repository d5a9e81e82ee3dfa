"""What an ONNX file contains, for readers: its producer, operators, weights and precision."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

import msgspec

from enginebay.ir.local_functions import walk_nodes
from enginebay.ir.onnx_file import parse_onnx

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

#: Parts of the lower-case names of operators that compute in 8 bits, or convert to them.
_QUANTISED = ("quantize", "qlinear", "qgemm", "qattention", "nbits", "integer")

#: Those that only read weights in few bits, and compute in floats.
_EXACT = ("DequantizeLinear", "GatherBlockQuantized", "MatMulNBits")

_OWN_DOMAIN = "ai.onnx"

#: ONNX's number of a dtype in half precision → the precision.
_HALF = {10: "fp16", 16: "bf16"}

#: The precisions of a file, from the smallest tolerance to the largest.
_PRECISIONS = ("fp32", *_HALF.values(), "int8")

#: The number of operators that a description names.
_MAX_OPERATORS = 12


class ONNXSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What an ONNX file contains.

    Attributes:
        producer: Name and version of the program that wrote the file; empty if it does not say.
        opsets: Domain → version of its operators; ONNX's own domain is ``ai.onnx``.
        operators: Domain → operator → number of nodes, most frequent first, with those of branches,
            loops and functions.
        weights: Dtype → number of bytes of the initializers and constants.
        halves: The precisions (``fp16``, ``bf16``) that operators other than a Cast take.
        duplicates: How many initializers in the file equal another one, and their bytes together.
    """

    producer: str
    opsets: dict[str, int]
    operators: dict[str, dict[str, int]]
    weights: dict[str, int]
    halves: tuple[str, ...] = ()
    duplicates: tuple[int, int] = (0, 0)

    @property
    def quantised(self) -> tuple[str, ...]:
        """The operators that compute in 8 bits, or convert to them."""
        names = (name for operators in self.operators.values() for name in operators)
        return tuple(name for name in names if any(part in name.lower() for part in _QUANTISED))

    @property
    def stores_8_bits(self) -> bool:
        """True if there are weights of 8 bits or less, which an engine may multiply as they are."""
        return any(dtype.removeprefix("u") in ("int8", "int4", "int2") for dtype in self.weights)

    @property
    def precision(self) -> str:
        """The coarsest precision that the file computes in: ``fp32``, ``fp16``, ``bf16``, ``int8``.

        Weights of 8 bits that a node makes floats of are exact numbers to the file itself.
        """
        is_rounded = any(not name.startswith(_EXACT) for name in self.quantised)
        return max("fp32", *self.halves, "int8" if is_rounded else "fp32", key=_PRECISIONS.index)

    @property
    def stored_precision(self) -> str:
        """The coarsest precision of the weights and of :attr:`precision`.

        A file whose weights were rounded differs by this from the one that it was made from.
        """
        if self.quantised:
            return "int8"
        stored = {"float16": "fp16", "bfloat16": "bf16"}
        found = (stored.get(dtype, "fp32") for dtype in self.weights)
        return max((self.precision, *found), key=_PRECISIONS.index)

    def fields(self) -> list[tuple[str, str]]:
        """Return pairs of a label and a text."""
        from enginebay.display import human_size

        # The description of an IR has the version of ONNX's own operators.
        opsets = ", ".join(f"{name} {n}" for name, n in self.opsets.items() if name != _OWN_DOMAIN)
        weights = ", ".join(f"{human_size(size)} {dtype}" for dtype, size in self.weights.items())
        return [
            ("producer", self.producer),
            ("opsets", opsets),
            *(("operators", _list_operators(*item)) for item in self.operators.items()),
            ("weights", weights),
            ("duplicates", _describe_duplicates(*self.duplicates)),
            ("quantised", ", ".join(self.quantised)),
        ]


def summarise_onnx(path: Path) -> ONNXSummary:
    """Read what an ONNX file contains, without its weights.

    Raises:
        ModelSourceError: The file is damaged or not an ONNX model.
    """
    return summarise_proto(parse_onnx(path))


def summarise_proto(proto: onnx.ModelProto, duplicates: tuple[int, int] = (0, 0)) -> ONNXSummary:
    """Return what a parsed ONNX file contains; the caller has found the duplicates in the file."""
    from enginebay.ir.onnx_file import read_dtype

    counts: dict[str, Counter[str]] = {}
    tensors = [*proto.graph.initializer]
    dtypes = {each.name: each.data_type for each in tensors}
    dtypes |= {each.name: each.type.tensor_type.elem_type for each in proto.graph.input}
    taken: set[str] = set()
    for node in walk_nodes(proto):
        counts.setdefault(_name_domain(node.domain), Counter())[node.op_type] += 1
        if node.op_type != "Cast":
            taken.update(node.input)
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                tensors.append(attribute.t)
                dtypes[node.output[0]] = attribute.t.data_type
            elif node.op_type == "Cast" and attribute.name == "to":
                dtypes[node.output[0]] = attribute.i
    weights: Counter[str] = Counter()
    for tensor in tensors:
        weights[read_dtype(tensor.data_type)] += _count_bytes(tensor)
    found = {_HALF[dtype] for name, dtype in dtypes.items() if name in taken and dtype in _HALF}
    return ONNXSummary(
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
        opsets={_name_domain(entry.domain): entry.version for entry in proto.opset_import},
        operators={domain: dict(nodes.most_common()) for domain, nodes in counts.items()},
        weights=dict(weights.most_common()),
        halves=tuple(sorted(found)),
        duplicates=duplicates,
    )


def _describe_duplicates(count: int, size: int) -> str:
    from enginebay.display import human_size

    if not count:
        return ""
    return (
        f"{count} weight{' equals another' if count == 1 else 's equal others'}, {human_size(size)}"
    )


def _name_domain(domain: str) -> str:
    return domain or _OWN_DOMAIN


def _count_bytes(tensor: onnx.TensorProto) -> int:
    import onnx

    try:
        itemsize = int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except KeyError:  # no dtype of ONNX
        return 0
    return itemsize * int(prod(tensor.dims))


def _list_operators(domain: str, operators: dict[str, int]) -> str:
    named = [f"{count} {name}" for name, count in [*operators.items()][:_MAX_OPERATORS]]
    if (left := len(operators) - len(named)) > 0:
        named.append(f"{left} more kinds")
    text = ", ".join(named)
    return text if domain == _OWN_DOMAIN else f"{domain}: {text}"
