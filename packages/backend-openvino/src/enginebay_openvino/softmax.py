"""A converter for ONNX's ``Softmax`` of opsets 11 and 12, which is over all axes from one on.

OpenVINO 2026.4 gives it the meaning of opset 13, a single axis: the result is wrong without an
error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import openvino as ov
    from openvino.frontend import NodeContext
    from openvino.frontend.onnx import ConversionExtension

#: The opsets that OpenVINO reads wrongly.
_MISREAD = (11, 12)


def make_softmax_readers(opset: int | None) -> Iterator[ConversionExtension]:
    """Yield the OpenVINO extension that converts ``Softmax``, if the model's opset needs one."""
    from openvino.frontend.onnx import ConversionExtension

    if opset in _MISREAD:
        yield ConversionExtension("Softmax", lambda node: [_build_softmax(node)])


def _build_softmax(node: NodeContext) -> ov.Output:
    from openvino import opset15 as ops

    x = node.get_input(0)
    axis = int(node.get_attribute("axis", 1))
    if axis < 0:
        axis += x.get_partial_shape().rank.get_length()
    # A size of 0 is that of the input.
    rows = ops.reshape(x, [*[0] * axis, -1], True)
    return ops.reshape(ops.softmax(rows, axis), ops.shape_of(x), False).output(0)
