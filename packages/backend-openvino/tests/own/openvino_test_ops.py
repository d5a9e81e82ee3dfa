"""Operators of a user's own, as their file has them."""

from __future__ import annotations

import numpy as np
from openvino import Op, opset15
from openvino.frontend.onnx import ConversionExtension


class Twice(Op):
    def __init__(self, inputs=None):
        super().__init__(self)
        if inputs is not None:
            self.set_arguments(inputs)
            self.constructor_validate_and_infer_types()

    def validate_and_infer_types(self):
        self.set_output_type(0, self.get_input_element_type(0), self.get_input_partial_shape(0))

    def clone_with_new_inputs(self, new_inputs):
        return Twice(new_inputs)

    def has_evaluate(self):
        return True

    def evaluate(self, outputs, inputs):
        outputs[0].shape = inputs[0].shape
        outputs[0].data[:] = inputs[0].data * 2
        return True


#: ONNX's node becomes the operator above.
read_twice = ConversionExtension(
    "Twice", "example", lambda node: [Twice([node.get_input(0)]).output(0)]
)

#: ONNX's node becomes an operator that OpenVINO has.
multiply = ConversionExtension(
    "Twice",
    "example",
    lambda node: [opset15.multiply(node.get_input(0), np.float32(2)).output(0)],
)

no_extension = 3
