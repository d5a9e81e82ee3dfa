"""The laws for every backend."""

from __future__ import annotations

import pytest

from enginebay_testing import Conformance


class TestConformance(Conformance):
    @pytest.fixture
    def backend(self) -> str:
        return "openvino"
