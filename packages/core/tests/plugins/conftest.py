"""What the tests of discovery and loading share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from enginebay.plugins import discovery
from enginebay.plugins.entry_points import scan

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = """
from enginebay.hooks import BackendInfo, hookimpl


@hookimpl
def backend_info():
    return BackendInfo(name={name!r}, irs=("onnx",), api_version=1)


@hookimpl
def to_backend(request):
    return [__name__]


@hookimpl
def build_wrapper(request):
    return "wrapper of " + __name__
"""


@pytest.fixture
def good() -> Callable[..., str]:
    """The source of a plugin that works: ``good(name, extra_source="")``."""
    return lambda name, extra="": GOOD.format(name=name) + extra


INSTALLED = tuple(sys.path)


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the plugins that are installed here: a test finds those that it brings."""

    def found() -> object:
        return scan([place for place in sys.path if place not in INSTALLED])

    monkeypatch.setattr(discovery, "entry_points", found)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("BACKENDS", "DISABLE_BACKENDS", "STRICT_PLUGINS"):
        monkeypatch.delenv(f"ENGINEBAY_{variable}", raising=False)
