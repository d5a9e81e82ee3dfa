"""What core's tests share: the loopback backend, and small models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from enginebay.testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def loopback() -> Iterator[str]:
    """A backend that needs no engine, discoverable in this process and in its children."""
    with temporary_backend("loopback", "enginebay.testing.loopback"):
        yield "loopback"
