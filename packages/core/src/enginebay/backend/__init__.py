"""One plugin behind typed methods, and the check of what it needs."""

from __future__ import annotations

from enginebay.backend.backend import (
    DEFAULT_BACKEND,
    Backend,
    default_backend,
    get_backend,
    read_ir,
)
from enginebay.backend.contributed import plugin_rewriters
from enginebay.backend.kept import kept_nodes
from enginebay.backend.layers import time_layers, times_layers
from enginebay.backend.other_machines import check_runs_here, elsewhere
from enginebay.backend.shared_params import check_shared_param, own_params

__all__ = [
    "DEFAULT_BACKEND",
    "Backend",
    "check_runs_here",
    "check_shared_param",
    "default_backend",
    "elsewhere",
    "get_backend",
    "kept_nodes",
    "own_params",
    "plugin_rewriters",
    "read_ir",
    "time_layers",
    "times_layers",
]
