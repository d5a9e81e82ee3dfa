"""ONNX's node tests on each installed execution provider, for the page about providers."""
