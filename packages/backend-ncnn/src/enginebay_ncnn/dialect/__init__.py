"""Write lowered graphs in the dialect of TorchScript that pnnx converts correctly."""
