"""One plugin behind typed methods, and the check of what it needs."""

from enginebay.backend.backend import Backend, default_backend, get_backend, read_ir
from enginebay.backend.contributed import plugin_rewriters
from enginebay.backend.parts import convert_parts, load_parts

__all__ = [
    "Backend",
    "convert_parts",
    "default_backend",
    "get_backend",
    "load_parts",
    "plugin_rewriters",
    "read_ir",
]
