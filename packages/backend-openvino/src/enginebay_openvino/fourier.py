"""A converter for ONNX's ``DFT`` that transforms along the axis that the model requests.

OpenVINO 2026.4 reads the axis from an attribute, which ``DFT`` had before opset 20. Since opset 20
the axis is the third input. OpenVINO ignores this input and transforms along axis 1: the result is
wrong without an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov
    from openvino.frontend import NodeContext
    from openvino.frontend.onnx import ConversionExtension

#: The first opset with the axis as an input, and the first whose default axis is -2, not 1.
_AXIS_INPUT_OPSET = 20


def make_dft_reader(opset: int | None) -> ConversionExtension:
    """Return the OpenVINO extension that converts ``DFT``.

    Args:
        opset: The model's opset, which determines the default axis; None if unknown.
    """
    from openvino.frontend.onnx import ConversionExtension

    return ConversionExtension(
        "DFT", lambda node: [_build_transform(node, opset or _AXIS_INPUT_OPSET)]
    )


def _build_transform(node: NodeContext, opset: int) -> ov.Output:
    """Return the Fourier transform of a ``DFT`` node's signal.

    The last axis of the signal has size 1 for real numbers, and size 2 for complex numbers.
    """
    from openvino import opset15 as ops

    signal, last = node.get_input(0), [-1]
    real = signal.get_partial_shape()[-1] == 1
    inverse, onesided = (bool(node.get_attribute(name, 0)) for name in ("inverse", "onesided"))
    size = _constant_input(node, 1)
    # OpenVINO's negative axes do not count the dimension of the complex parts.
    axis = _read_axis(node, opset)
    arguments = [[axis if axis >= 0 else axis + 1], size if size is None else [size]]
    if onesided and inverse:
        return ops.unsqueeze(ops.irdft(signal, *arguments), last).output(0)
    if onesided:
        if not real:
            raise ValueError("a one-sided DFT of complex numbers is not defined")
        return ops.rdft(ops.squeeze(signal, last), *arguments).output(0)
    if real:
        # The imaginary part: zeros of the signal's shape, which may be dynamic.
        signal = ops.concat([signal, ops.subtract(signal, signal)], -1)
    transform = ops.idft if inverse else ops.dft
    return transform(signal, *arguments).output(0)


def _read_axis(node: NodeContext, opset: int) -> int:
    if node.has_attribute("axis"):
        return int(node.get_attribute("axis", 0))
    axis = _constant_input(node, 2)
    if axis is None:
        return -2 if opset >= _AXIS_INPUT_OPSET else 1
    return axis


def _constant_input(node: NodeContext, index: int) -> int | None:
    """Return the value of an optional input, which must be a constant; None if it is omitted."""
    if index >= node.get_input_size():
        return None
    source = node.get_input(index).get_node()
    if source.get_type_name() == "NullNode":
        return None
    if source.get_type_name() != "Constant":
        raise ValueError(f"input {index} of a DFT is computed: expected a constant")
    return int(source.data.item())
