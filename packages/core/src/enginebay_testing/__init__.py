"""Tools for the tests of plugins: the conformance kit, and temporary backends.

Backends import this package in their tests only. ``pytest -p enginebay_testing`` loads its plugin,
with the options and the reports of the conformance kit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import lazy_names

if TYPE_CHECKING:
    from enginebay_testing.conformance import (
        CommandConformance as CommandConformance,
        Conformance as Conformance,
        xfail as xfail,
    )
    from enginebay_testing.temporary import temporary_backend as temporary_backend

#: The name by which pytest finds the plugin, if it loads this package as a plugin.
pytest_plugins = ("enginebay_testing.pytest_plugin",)

# Only the conformance kit needs pytest.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "conformance": "CommandConformance Conformance xfail",
        "temporary": "temporary_backend",
    },
)
