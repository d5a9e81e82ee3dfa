"""Parse an ``.onnx`` file to a TensorRT network, or list all errors of the parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ConversionError
from enginebay_tensorrt.dtypes import get_dtype_name
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.precision import uses_flags

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import tensorrt as trt

    from enginebay import TensorSpec
    from enginebay_tensorrt.library import Library
    from enginebay_tensorrt.params import Params

#: The largest number of nodes in a message, for each error: an operator may have hundreds of nodes.
_MAX_NODES = 3


def make_creation_flags(library: Library, params: Params) -> int:
    """Return the flags with which TensorRT creates a network."""
    if not library.has_precision_flags or uses_flags(params):
        return 0  # TensorRT 11 has only strongly typed networks
    return 1 << int(library.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


def parse(library: Library, network: trt.INetworkDefinition, source: Path, params: Params) -> None:
    """Parse an ``.onnx`` file into a network.

    Raises:
        ConversionError: The parser rejects the file; the message names all rejected operators.
    """
    trt = library.trt
    parser = trt.OnnxParser(network, library.logger)
    # New in TensorRT 10.16.
    if params.dla_core is not None and "ADJUST_FOR_DLA" in trt.OnnxParserFlag.__members__:
        parser.set_flag(trt.OnnxParserFlag.ADJUST_FOR_DLA)
    if parser.parse_from_file(str(source)):
        return
    nodes: dict[str, list[str]] = {}
    for error in (parser.get_error(number) for number in range(parser.num_errors)):
        node, operator = error.node_name(), error.node_operator()
        text = _describe_error(error)
        if operator and operator not in text:
            text = f"{operator}: {text}"
        nodes.setdefault(text, []).extend([f"'{node}'"] if node else [])
    reasons = [f"{text}{_format_nodes(names)}" for text, names in nodes.items()]
    reasons = reasons or ["no reason was given"]
    raise ConversionError(
        f"{library.product.title} cannot parse '{source.name}': {'; '.join(reasons)}",
        hint="list the modules that use the operator: enginebay preview MODEL --backend "
        f"{library.product.backend}; write a rewriter for the operator, or provide a "
        "plugin with --plugins",
    )


def _format_nodes(nodes: list[str]) -> str:
    if not nodes:
        return ""
    others = len(nodes) - _MAX_NODES
    more = f" and {others} more" if others > 0 else ""
    return f" (node{'s' if len(nodes) > 1 else ''} {', '.join(nodes[:_MAX_NODES])}{more})"


def list_parser_errors(source: Path, params: Params) -> list[tuple[str, str]]:
    """Return all errors of TensorRT's parser for a file, without building an engine.

    Returns:
        For each error, the name of the node, which may be empty, and the parser's message.
    """
    library = get_library(params)
    trt, logger = library.trt, library.logger
    with logger.collecting():
        network = trt.Builder(logger).create_network(make_creation_flags(library, params))
        parser = trt.OnnxParser(network, logger)
        if parser.parse_from_file(str(source)):
            return []
        # The parser owns its errors: format them while it exists.
        errors = [parser.get_error(number) for number in range(parser.num_errors)]
        return [(error.node_name(), _describe_error(error)) for error in errors]


def _describe_error(error: trt.ParserError) -> str:
    text = " ".join(error.desc().split())
    # Some errors are the source text of a failed assertion: "false" for an operator that is not
    # supported, and a condition with a message for an operator that ONNX does not define.
    if text == "false":
        return f"{error.node_operator()} is not supported"
    condition, separator, rest = text.partition(' && "')
    return rest.removesuffix('"') if separator and condition.isidentifier() else text


def _list_ports(network: trt.INetworkDefinition) -> tuple[list[trt.ITensor], list[trt.ITensor]]:
    inputs = [network.get_input(n) for n in range(network.num_inputs)]
    return inputs, [network.get_output(n) for n in range(network.num_outputs)]


def read_input_shapes(network: trt.INetworkDefinition) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a network's inputs, with -1 for dynamic dimensions."""
    return {tensor.name: tuple(tensor.shape) for tensor in _list_ports(network)[0]}


def check_network_ports(
    library: Library,
    network: trt.INetworkDefinition,
    source: Path,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> None:
    """Raise an error if a network does not have the model's inputs and outputs.

    Raises:
        ConversionError: An input or output is missing or has another dtype, or an input is a shape
            tensor.
    """
    title = library.product.title
    ports = _list_ports(network)
    for tensor in ports[0]:
        if tensor.is_shape_tensor:
            raise ConversionError(
                f"the values of input '{tensor.name}' of '{source.name}' determine shapes, which "
                f"{title} does not support",
                hint="make the input a constant of the model",
            )
    # The parser renames an input that is an output too, drops inputs that no node reads, and
    # changes dtypes that TensorRT does not have.
    for kind, tensors, specs in (("input", ports[0], inputs), ("output", ports[1], outputs)):
        dtypes = {tensor.name: get_dtype_name(tensor.dtype) for tensor in tensors}
        for spec in specs:
            if spec.name not in dtypes:
                raise ConversionError(
                    f"{title}'s network has no {kind} '{spec.name}' of '{source.name}': "
                    f"found {', '.join(dtypes) or 'none'}",
                    hint="give each output a name that no input has",
                )
            if dtypes[spec.name] != spec.dtype:
                raise ConversionError(
                    f"{title} changed the dtype of {kind} '{spec.name}' of '{source.name}': "
                    f"expected {spec.dtype}, found {dtypes[spec.name]}",
                    hint=f"convert the {kind} inside the model to a dtype that {title} supports",
                )
