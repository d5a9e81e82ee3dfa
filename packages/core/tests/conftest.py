"""What core's tests share: the loopback backend, and small models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from enginebay.testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is learnt about the tests' own plugins out of the user's cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def loopback() -> Iterator[str]:
    """A backend that needs no engine, discoverable in this process and in its children."""
    with temporary_backend("loopback", "enginebay.testing.loopback"):
        yield "loopback"
