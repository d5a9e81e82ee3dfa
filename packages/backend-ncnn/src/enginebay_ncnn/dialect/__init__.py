"""Writes a lowered graph as TorchScript that pnnx reads well."""
