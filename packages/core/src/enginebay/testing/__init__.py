"""Tools for the tests of plugins: the conformance kit, and temporary backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.testing.conformance import (
        CommandConformance as CommandConformance,
        Conformance as Conformance,
        xfail as xfail,
    )
    from enginebay.testing.temporary import temporary_backend as temporary_backend


# Only the conformance kit needs pytest.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "testing.conformance": "CommandConformance Conformance xfail",
        "testing.temporary": "temporary_backend",
    },
)
