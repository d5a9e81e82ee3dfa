"""The loopback backend passes every law."""

from __future__ import annotations

import pytest

from enginebay_testing import Conformance


@pytest.mark.usefixtures("loopback")
class TestLoopback(Conformance):
    @pytest.fixture
    def backend(self) -> str:
        return "loopback"
