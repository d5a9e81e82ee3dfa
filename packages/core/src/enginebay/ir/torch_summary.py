"""What a TorchScript file or an exported program contains, for readers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import torch_private
from enginebay.ir.program_check import find_torch_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The number of operators that a description names.
_MAX_OPERATORS = 12


class TorchSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of torch contains.

    Attributes:
        producer: The version of torch that wrote the file; empty for TorchScript, which has none.
        methods: The declarations of the methods; empty for a program.
        operators: Operator → number of nodes, most frequent first; of ``forward`` in TorchScript.
        weights: Dtype → number of bytes of the parameters and buffers.
        notes: What a reader should know before a deployment.
    """

    producer: str
    methods: tuple[str, ...]
    operators: dict[str, int]
    weights: dict[str, int]
    notes: tuple[str, ...] = ()

    def fields(self) -> list[tuple[str, str]]:
        """Return pairs of a label and a text."""
        from enginebay.display import human_size

        named = [f"{count} {name}" for name, count in [*self.operators.items()][:_MAX_OPERATORS]]
        if (left := len(self.operators) - len(named)) > 0:
            named.append(f"{left} more kinds")
        weights = ", ".join(f"{human_size(size)} {dtype}" for dtype, size in self.weights.items())
        quantised = ", ".join(name for name in self.operators if "quantized" in name)
        return [
            ("producer", self.producer),
            *(("method", method) for method in self.methods),
            ("operators", ", ".join(named)),
            ("weights", weights),
            ("quantised", quantised),
            *(("note", note) for note in self.notes),
        ]


def summarise_torch(model: Any, path: Path) -> TorchSummary:
    """Summarise a TorchScript module or an exported program that was read from a file."""
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        tensors = [*model.parameters(), *model.buffers()]
        is_training = getattr(model, "training", False)
        note = "saved in training mode; it is deployed in evaluation mode"
        return TorchSummary(
            producer="",
            methods=tuple(_describe_methods(model)),
            operators=_count_operators(model),
            weights=_count_bytes(tensors),
            notes=(note,) if is_training else (),
        )
    targets = Counter(str(node.target) for node in model.graph.nodes if "call" in node.op)
    return TorchSummary(
        producer=f"torch {find_torch_version(path)}",
        methods=(),
        operators=dict(targets.most_common()),
        weights=_count_bytes([*model.state_dict.values()]),
    )


def _describe_methods(model: Any) -> Iterator[str]:
    for name in sorted(torch_private.script_method_names(model)):
        schema = getattr(getattr(model, name), "schema", None)
        if schema is None or (name.startswith("_") and name != "forward"):
            continue
        arguments = [
            f"{each.name}: {each.type.annotation_str}"
            + (f" = {each.default_value!r}" if each.has_default_value() else "")
            for each in schema.arguments[1:]
        ]
        returned = ", ".join(each.type.annotation_str for each in schema.returns)
        yield f"{name}({', '.join(arguments)}) -> {returned}"


def _count_operators(model: Any) -> dict[str, int]:
    if not hasattr(model, "forward"):
        return {}
    kinds = (node.kind() for node in _walk_nodes(model.inlined_graph))
    return dict(Counter(kind for kind in kinds if not kind.startswith("prim::")).most_common())


def _walk_nodes(block: Any) -> Iterator[Any]:
    """Yield every node of a graph, also those of branches and loops."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _walk_nodes(inner)


def _count_bytes(tensors: list[Any]) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[str(tensor.dtype).removeprefix("torch.")] += tensor.nbytes
    return dict(sizes.most_common())
