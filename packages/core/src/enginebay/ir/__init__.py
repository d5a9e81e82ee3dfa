"""From a PyTorch model to an intermediate representation: ONNX, TorchScript, exported program."""
