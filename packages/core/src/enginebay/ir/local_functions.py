"""Local functions of ONNX files: operators that the file itself defines by others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ConversionError, ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import onnx


def check_functions(proto: onnx.ModelProto, path: Path) -> None:
    """Raise ModelSourceError if a function of the file calls itself, which never ends."""
    calls = {_key(each): {*map(_key_of_call, _walk(each.node))} for each in proto.functions}
    while calls:
        ended = [name for name, called in calls.items() if not called & calls.keys()]
        if not ended:
            names = ", ".join(f"{domain}.{name}" for domain, name, _ in calls)
            raise ModelSourceError(f"'{path.name}' has functions that call themselves: {names}")
        for name in ended:
            del calls[name]


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Put the bodies of a model's functions in place of their calls; the model may change.

    Raises:
        ConversionError: A function has another opset than the model.
    """
    from onnx.inliner import inline_local_functions

    defaults = {_key(each): each.attribute_proto for each in model.functions}
    for node in walk_nodes(model):
        # onnx's inliner forgets the defaults of a function's attributes.
        given = {each.name for each in node.attribute}
        known = defaults.get(_key_of_call(node), ())
        node.attribute.extend(each for each in known if each.name not in given)
    inlined = inline_local_functions(model)
    if inlined.functions:
        names = ", ".join(f"{each.domain}.{each.name}" for each in inlined.functions)
        raise ConversionError(
            "functions of another opset than the model's cannot be put in place of their calls: "
            f"{names}"
        )
    return inlined


def walk_nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node, also those of functions, and of subgraphs in attributes."""
    yield from _walk(proto.graph.node)
    for function in proto.functions:
        yield from _walk(function.node)


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node


def _key(function: onnx.FunctionProto) -> tuple[str, str, str]:
    return function.domain, function.name, function.overload


def _key_of_call(node: onnx.NodeProto) -> tuple[str, str, str]:
    return node.domain, node.op_type, node.overload
