"""The typed interface to one backend plugin, and the check of the backend's environment."""

from __future__ import annotations

from enginebay.backend.backend import (
    Backend,
    default_backend,
    get_backend,
)
from enginebay.backend.contributed import plugin_rewriters
from enginebay.backend.layer_times import time_layers, times_layers
from enginebay.backend.node_selection import kept_nodes

__all__ = [
    "Backend",
    "default_backend",
    "get_backend",
    "kept_nodes",
    "plugin_rewriters",
    "time_layers",
    "times_layers",
]
