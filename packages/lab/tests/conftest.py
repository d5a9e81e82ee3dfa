"""Backends that need no engine, the command line, and a cache of the tests' own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packages.core.tests.conftest import ahead, loopback  # noqa: F401  # fixtures

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is learnt about the tests' own plugins out of the user's cache folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
