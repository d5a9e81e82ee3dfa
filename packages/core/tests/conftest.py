"""Fixtures of core's tests: the loopback backend, and small models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enginebay.plugins import discovery, forget_plugins
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a temporary cache folder for the trials of the tests' plugins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def loopback() -> Iterator[str]:
    """Install the loopback backend, for this process and its children."""
    with temporary_backend("loopback", "enginebay_testing.loopback"):
        yield "loopback"


@pytest.fixture
def without_vision(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide enginebay-vision."""
    listed = discovery.list_plugins
    monkeypatch.setattr(
        discovery, "list_plugins", lambda: [each for each in listed() if each.name != "vision"]
    )
    forget_plugins()
    yield
    forget_plugins()


@pytest.fixture
def fallen() -> Iterator[str]:
    """Install a backend whose engine uses a fallback; see ``fallen_backend.py``."""
    with temporary_backend("fallen", (Path(__file__).parent / "fallen_backend.py").read_text()):
        yield "fallen"


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install a backend that builds for other machines; see ``ahead_backend.py``."""
    for switch in ("AHEAD_DEVICE", "AHEAD_GAIN", "AHEAD_GRAPH"):
        monkeypatch.delenv(switch, raising=False)
    with temporary_backend("ahead", (Path(__file__).parent / "ahead_backend.py").read_text()):
        yield "ahead"
