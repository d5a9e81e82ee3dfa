"""What the authors of plugins test with: the conformance kit, and backends for a moment."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.testing.conformance import Conformance, xfail
    from enginebay.testing.temporary import temporary_backend

_HOMES = {
    "Conformance": "conformance",
    "temporary_backend": "temporary",
    "xfail": "conformance",
}

__all__ = ["Conformance", "temporary_backend", "xfail"]


def __getattr__(name: str) -> Any:
    """Fetch a name from where it lives: only the conformance kit needs pytest."""
    if name not in _HOMES:
        raise AttributeError(f"module 'enginebay.testing' has no attribute '{name}'")
    return getattr(import_module(f"enginebay.testing.{_HOMES[name]}"), name)
