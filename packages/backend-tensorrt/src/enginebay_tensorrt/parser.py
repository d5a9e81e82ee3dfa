"""The parser: from an ``.onnx`` file to TensorRT's network, or to all that it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError
from enginebay_tensorrt.dtypes import dtype_name
from enginebay_tensorrt.library import library_of
from enginebay_tensorrt.precision import uses_flags

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay import TensorSpec
    from enginebay_tensorrt.library import Library
    from enginebay_tensorrt.params import Params

#: Nodes in a message for each thing that is refused; of one operator there are often hundreds.
_MAX_NODES = 3


def creation_flags(library: Library, params: Params) -> int:
    """Return the flags that a network is created with."""
    if not library.has_precision_flags or uses_flags(params):
        return 0  # since 11 every network is strongly typed
    return 1 << int(library.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


def parse(library: Library, network: Any, source: Path, params: Params) -> None:
    """Read a file into a network.

    Raises:
        ConversionError: The parser refuses operators, all of which are named, or the whole file.
    """
    trt = library.trt
    parser = trt.OnnxParser(network, library.logger)
    # The parser has the flag since 10.16.
    if params.dla_core is not None and "ADJUST_FOR_DLA" in trt.OnnxParserFlag.__members__:
        parser.set_flag(trt.OnnxParserFlag.ADJUST_FOR_DLA)
    if parser.parse_from_file(str(source)):
        return
    nodes: dict[str, list[str]] = {}
    for error in (parser.get_error(number) for number in range(parser.num_errors)):
        node, operator = error.node_name(), error.node_operator()
        text = _describe(error)
        if operator and operator not in text:
            text = f"{operator}: {text}"
        nodes.setdefault(text, []).extend([f"'{node}'"] if node else [])
    reasons = [f"{text}{_at(names)}" for text, names in nodes.items()] or ["no reason was given"]
    raise ConversionError(
        f"{library.product.title} cannot parse '{source.name}': {'; '.join(reasons)}",
        hint=f"enginebay preview MODEL --backend {library.product.backend} names the modules; "
        "write a rewriter for the operator, or bring a plugin with --plugins",
    )


def _at(nodes: list[str]) -> str:
    """Where an error is: at the first nodes, and at how many others."""
    if not nodes:
        return ""
    others = len(nodes) - _MAX_NODES
    more = f" and {others} more" if others > 0 else ""
    return f" (node{'s' if len(nodes) > 1 else ''} {', '.join(nodes[:_MAX_NODES])}{more})"


def parser_errors(source: Path, params: Params) -> list[tuple[str, str]]:
    """Return the parser's errors about a file, without building anything.

    Returns:
        The name of a node, which may be empty, and what the parser says about it.
    """
    library = library_of(params)
    trt, logger = library.trt, library.logger
    with logger.collecting():
        network = trt.Builder(logger).create_network(creation_flags(library, params))
        parser = trt.OnnxParser(network, logger)
        if parser.parse_from_file(str(source)):
            return []
        # Its errors are gone with the parser.
        errors = [parser.get_error(number) for number in range(parser.num_errors)]
        return [(error.node_name(), _describe(error)) for error in errors]


def _describe(error: Any) -> str:
    """A parser's error in one line; an assertion is all that it says about some operators.

    The code of the parser is in the text: ``false`` for an operator that it never takes, and a
    condition with a text for one that is no operator of ONNX's.
    """
    text = " ".join(error.desc().split())
    if text == "false":
        return f"{error.node_operator()} is not supported"
    condition, both, rest = text.partition(' && "')
    return rest.removesuffix('"') if both and condition.isidentifier() else text


def _ports(network: Any) -> tuple[list[Any], list[Any]]:
    inputs = [network.get_input(n) for n in range(network.num_inputs)]
    return inputs, [network.get_output(n) for n in range(network.num_outputs)]


def input_shapes(network: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a network's inputs, -1 where a dimension is dynamic."""
    return {tensor.name: tuple(tensor.shape) for tensor in _ports(network)[0]}


def check_ports(
    library: Library,
    network: Any,
    source: Path,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> None:
    """Check that a network has the inputs and outputs of its model, in their dtypes.

    Raises:
        ConversionError: It has others, or an input decides shapes.
    """
    title = library.product.title
    ports = _ports(network)
    for tensor in ports[0]:
        if tensor.is_shape_tensor:
            raise ConversionError(
                f"input '{tensor.name}' of '{source.name}' decides shapes: {title} builds "
                "for a range of its values, which shapes do not give",
                hint="make it a constant of the model",
            )
    for kind, tensors, specs in (("input", ports[0], inputs), ("output", ports[1], outputs)):
        found = {tensor.name: dtype_name(tensor.dtype) for tensor in tensors}
        for spec in specs:
            if spec.name not in found:
                raise ConversionError(
                    f"{title}'s network has no {kind} '{spec.name}' as '{source.name}' has: "
                    f"found {', '.join(found) or 'none'}",
                    hint="no output may have the name of an input",
                )
            if found[spec.name] != spec.dtype:
                raise ConversionError(
                    f"{title} reads {kind} '{spec.name}' of '{source.name}' as "
                    f"{found[spec.name]}, wanted {spec.dtype}",
                    hint="convert it inside the model, to a dtype that TensorRT has",
                )
