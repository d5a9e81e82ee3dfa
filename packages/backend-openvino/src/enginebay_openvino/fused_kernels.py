"""Detects errors of the fused kernels ("Subgraph") of OpenVINO's CPU plugin.

OpenVINO 2026.4 fuses an attention and the transpositions around it into one kernel. If query and
output have the same shape, the kernel may write the output over the query. With as many heads as
tokens the shapes are the same, but the query and the output are ordered differently, by head and by
token: the result is wrong without an error. 4 frames and 4 heads are enough.

OpenVINO also fuses residual blocks: the linear layers whose input is a matrix with few rows, and
the operator that adds the layers' result to an earlier matrix. The kernel splits rows among its
threads. Compiling two residual blocks for 4, 6 or 8 rows on two threads crashes with SIGSEGV.

On a processor with VNNI or AMX OpenVINO fuses such layers in int8 too. The kernel reports f32, the
type of the first input, but computes products in 8 bits, by the instruction vpdpbusd or tdpbusd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

#: The property that disables such kernels; other layers do not change.
SEPARATE_KERNELS = {"SNIPPETS_MODE": "DISABLE"}


def may_overwrite_its_query(compiled: ov.CompiledModel) -> bool:
    """Return True if a kernel may be an attention that writes the output over the query.

    The result is also True for an element-wise kernel of the same shapes, which looks the same.
    Such a kernel is correct, and computes the same numbers without fusion.
    """
    return any(
        _get_layer_type(node) == "Subgraph" and _may_be_in_place(node)
        for node in compiled.get_runtime_model().get_ops()
    )


def may_crash(network: ov.Model) -> bool:
    """Return True if compiling the network may crash.

    Compiling may crash if the network has two or more linear layers, and an operator that reads two
    matrices, such as the addition of a residual block.
    """
    constants: set[str] = set()
    layers = joins = 0
    for node in network.get_ordered_ops():
        sources = [port.get_source_output() for port in node.inputs()]
        is_variable_source = [source.get_node().get_name() not in constants for source in sources]
        kind = node.get_type_name()
        if kind == "Constant" or (sources and not any(is_variable_source)):
            constants.add(node.get_name())
        elif kind == "MatMul":
            layers += is_variable_source == [True, False] and _is_matrix(sources[0])
        elif kind != "Concat":
            matrices = [
                source
                for source, is_variable in zip(sources, is_variable_source, strict=True)
                if is_variable
            ]
            joins += len(matrices) > 1 and all(map(_is_matrix, matrices))
    return layers > 1 and joins > 0


def find_products(network: ov.Model) -> frozenset[str]:
    """Return the names of the network's matrix products."""
    ops = network.get_ops()
    return frozenset(op.get_friendly_name() for op in ops if op.get_type_name() == "MatMul")


def count_int8_products(kernel: ov.Node, names: frozenset[str]) -> int:
    """Return how many matrix products a fused kernel computes in 8 bits; 0 for other layers.

    Args:
        kernel: A layer of a compiled model.
        names: The names of the network's matrix products.
    """
    # Second factors (weights, or keys and values of an attention) are inputs of the kernel. They
    # are i8 for a product in 8 bits, and converted to floats for other products.
    if _get_layer_type(kernel) != "Subgraph" or not any(
        port.get_element_type().get_type_name() == "i8" for port in kernel.inputs()
    ):
        return 0
    parts = kernel.get_rt_info()["originalLayersNames"].value.split(",")
    return len(names.intersection(parts))


def _is_matrix(tensor: ov.Output) -> bool:
    # Which numbers of rows crash depends on the number of threads. A single row is never split, and
    # a dynamic number of rows only when the network runs: both are safe.
    shape = tensor.get_partial_shape()
    return bool(shape.is_static and len(shape) == 2 and shape[0].get_length() > 1)


def _get_layer_type(node: ov.Node) -> str:
    info = node.get_rt_info()
    return str(info["layerType"].value) if "layerType" in info else ""


def _may_be_in_place(node: ov.Node) -> bool:
    """Return True for a kernel that may be an attention with as many heads as tokens."""
    output = node.get_output_partial_shape(0)  # dynamic shapes are never written in place
    if node.get_input_size() < 3 or output.is_dynamic or len(output) < 4:
        return False
    return bool(node.get_input_partial_shape(0) == output and output[-2] == output[-3])
