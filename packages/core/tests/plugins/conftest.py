"""Fixtures of the tests of discovery and loading."""

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
    """Hide the installed plugins, so that a test finds only its own."""

    def scan_test_folders() -> object:
        return scan([folder for folder in sys.path if folder not in INSTALLED])

    monkeypatch.setattr(discovery, "entry_points", scan_test_folders)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("BACKENDS", "DISABLE_BACKENDS", "STRICT_PLUGINS"):
        monkeypatch.delenv(f"ENGINEBAY_{variable}", raising=False)
