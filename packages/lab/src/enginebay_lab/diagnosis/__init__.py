"""Bisection: the first place where an engine leaves PyTorch, by module and by node."""
