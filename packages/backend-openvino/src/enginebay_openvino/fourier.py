"""A reader for ONNX's ``DFT`` that transforms along the right axis.

OpenVINO 2026.4 reads the axis from an attribute, where ``DFT`` had it up to operator set 19. Since
set 20 the axis is the third input, which OpenVINO ignores: every transform runs along axis 1, and
the numbers are silently wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openvino as ov

#: The first operator set with the axis as an input, and the first whose default axis is -2, not 1.
_AXIS_IS_AN_INPUT = 20


def dft_reader(opset: int | None) -> Any:
    """Return the OpenVINO extension that reads ``DFT``.

    Args:
        opset: The model's operator set, which decides the default axis.
    """
    from openvino.frontend.onnx import ConversionExtension

    return ConversionExtension("DFT", lambda node: [_transform(node, opset or _AXIS_IS_AN_INPUT)])


def _transform(node: Any, opset: int) -> ov.Output:
    """Build the transform of a signal whose last dimension is 2 if it is complex, 1 if real."""
    from openvino import opset15 as ops

    signal, last = node.get_input(0), [-1]
    real = signal.get_partial_shape()[-1] == 1
    inverse, onesided = (bool(node.get_attribute(name, 0)) for name in ("inverse", "onesided"))
    size = _constant_input(node, 1)
    # A negative axis of OpenVINO's does not count the complex parts.
    axis = _axis(node, opset)
    places = [[axis if axis >= 0 else axis + 1], size if size is None else [size]]
    if onesided and inverse:
        return ops.unsqueeze(ops.irdft(signal, *places), last).output(0)
    if onesided:
        if not real:
            raise ValueError("a one-sided DFT of complex numbers is not defined")
        return ops.rdft(ops.squeeze(signal, last), *places).output(0)
    if real:
        signal = ops.concat([signal, ops.subtract(signal, signal)], -1)
    transform = ops.idft if inverse else ops.dft
    return transform(signal, *places).output(0)


def _axis(node: Any, opset: int) -> int:
    if node.has_attribute("axis"):
        return int(node.get_attribute("axis", 0))
    axis = _constant_input(node, 2)
    if axis is None:
        return -2 if opset >= _AXIS_IS_AN_INPUT else 1
    return axis


def _constant_input(node: Any, place: int) -> int | None:
    """Return the value of an optional input, which must be a constant; None if it is left out."""
    if place >= node.get_input_size():
        return None
    source = node.get_input(place).get_node()
    if source.get_type_name() == "NullNode":
        return None
    if source.get_type_name() != "Constant":
        raise ValueError(f"input {place} of a DFT is computed, wanted a constant")
    return int(source.data.item())
