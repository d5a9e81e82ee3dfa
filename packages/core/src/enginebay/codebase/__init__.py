"""For plugins with a model source: what the caller asked for, and weights that are safe to load."""

from enginebay.codebase.options import Options, image_size, read_options
from enginebay.codebase.weights import (
    load_weights,
    same_each_time,
    settle_norms,
    take_weights,
)

__all__ = [
    "Options",
    "image_size",
    "load_weights",
    "read_options",
    "same_each_time",
    "settle_norms",
    "take_weights",
]
