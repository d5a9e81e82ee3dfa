"""Tests for authors of plugins: the conformance kit, and backends that are installed briefly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.testing.conformance import CommandConformance, Conformance, xfail
    from enginebay.testing.temporary import temporary_backend

__all__ = ["CommandConformance", "Conformance", "temporary_backend", "xfail"]

# Only the conformance kit needs pytest.
__getattr__ = lazy_names(
    __name__,
    {
        "CommandConformance": "testing.conformance",
        "Conformance": "testing.conformance",
        "temporary_backend": "testing.temporary",
        "xfail": "testing.conformance",
    },
)
