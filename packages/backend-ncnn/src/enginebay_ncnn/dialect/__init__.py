"""Write lowered graphs as TorchScript with only the operator calls that pnnx converts correctly."""
