"""The reference of ONNX files against ONNX Runtime, operator by operator and opset by opset."""
