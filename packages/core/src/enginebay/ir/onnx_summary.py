"""What an ONNX file contains, for readers: its producer, operators, weights and precision."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

import msgspec

from enginebay.ir.onnx_file import parse_onnx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import onnx

#: Parts of the lower-case names of operators that compute in 8 bits, or convert to them.
_QUANTISED = ("quantize", "qlinear", "qgemm", "qattention", "nbits", "integer")

#: Those that only read weights in few bits, which is exact.
_EXACT = ("DequantizeLinear", "GatherBlockQuantized", "MatMulNBits")

_OWN_DOMAIN = "ai.onnx"

#: ONNX's number of float16.
_FLOAT16 = 10

#: The number of operators that a description names.
_MAX_OPERATORS = 12


class ONNXSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What an ONNX file contains.

    Attributes:
        producer: Name and version of the program that wrote the file; empty if it does not say.
        opsets: Domain → version of its operators; ONNX's own domain is ``ai.onnx``.
        operators: Domain → operator → number of nodes, most frequent first, with those of branches,
            loops and functions.
        weights: Dtype → number of bytes of the initializers.
        is_half: True if an operator other than a Cast takes weights in half precision.
    """

    producer: str
    opsets: dict[str, int]
    operators: dict[str, dict[str, int]]
    weights: dict[str, int]
    is_half: bool = False

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
        """The coarsest precision that the file itself asks for: ``fp32``, ``fp16`` or ``int8``."""
        if any(not name.startswith(_EXACT) for name in self.quantised):
            return "int8"
        return "fp16" if self.is_half else "fp32"

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
            ("quantised", ", ".join(self.quantised)),
        ]


def summarise_onnx(path: Path) -> ONNXSummary:
    """Read what an ONNX file contains, without its weights.

    Raises:
        ModelSourceError: The file is damaged or not an ONNX model.
    """
    from enginebay.ir.onnx_file import read_dtype

    proto = parse_onnx(path)
    counts: dict[str, Counter[str]] = {}
    halves = {each.name for each in proto.graph.initializer if each.data_type == _FLOAT16}
    is_half = False
    for node in _walk_nodes(proto):
        is_half |= node.op_type != "Cast" and not halves.isdisjoint(node.input)
        counts.setdefault(_name_domain(node.domain), Counter())[node.op_type] += 1
    weights: Counter[str] = Counter()
    for tensor in proto.graph.initializer:
        weights[read_dtype(tensor.data_type)] += _count_bytes(tensor)
    return ONNXSummary(
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
        opsets={_name_domain(entry.domain): entry.version for entry in proto.opset_import},
        operators={domain: dict(found.most_common()) for domain, found in counts.items()},
        weights=dict(weights.most_common()),
        is_half=is_half,
    )


def _walk_nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node, also those of functions, and of subgraphs in attributes."""
    waiting = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node


def _name_domain(domain: str) -> str:
    return domain or _OWN_DOMAIN


def _count_bytes(tensor: onnx.TensorProto) -> int:
    import onnx

    itemsize = int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    return itemsize * int(prod(tensor.dims))


def _list_operators(domain: str, operators: dict[str, int]) -> str:
    named = [f"{count} {name}" for name, count in [*operators.items()][:_MAX_OPERATORS]]
    if (left := len(operators) - len(named)) > 0:
        named.append(f"{left} more kinds")
    text = ", ".join(named)
    return text if domain == _OWN_DOMAIN else f"{domain}: {text}"
