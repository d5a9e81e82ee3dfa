"""Reads ONNX's ``DFT`` along the axis that it names.

OpenVINO 2026.4 takes the axis from an attribute, as ``DFT`` had it up to operator set 19. Since 20
it is the third input, which is not looked at: every transform runs along axis 1 and gives wrong
numbers without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openvino as ov

#: The first operator set with the axis as an input, and ``-2`` where there is none, not ``1``.
_AXIS_IS_AN_INPUT = 20


def dft_reader(opset: int | None) -> Any:
    """OpenVINO's extension that reads ``DFT``.

    Args:
        opset: The model's operator set, for the axis that a node leaves out.
    """
    from openvino.frontend.onnx import ConversionExtension

    return ConversionExtension("DFT", lambda node: [_transform(node, opset or _AXIS_IS_AN_INPUT)])


def _transform(node: Any, opset: int) -> ov.Output:
    """The signal's last dimension is its complex parts: 2, or 1 where it is real."""
    from openvino import opset15 as ops

    signal, last = node.get_input(0), [-1]
    real = signal.get_partial_shape()[-1] == 1
    inverse, onesided = (bool(node.get_attribute(name, 0)) for name in ("inverse", "onesided"))
    size = _given(node, 1)
    # OpenVINO counts from behind without the complex parts.
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
    axis = _given(node, 2)
    if axis is None:
        return -2 if opset >= _AXIS_IS_AN_INPUT else 1
    return axis


def _given(node: Any, place: int) -> int | None:
    """An optional input's value, which must be in the graph; None where it is left out."""
    if place >= node.get_input_size():
        return None
    source = node.get_input(place).get_node()
    if source.get_type_name() == "NullNode":
        return None
    if source.get_type_name() != "Constant":
        raise ValueError(f"input {place} of a DFT is computed, wanted a constant")
    return int(source.data.item())
