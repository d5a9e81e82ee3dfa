"""The laws for every backend."""

from __future__ import annotations

import pytest

from enginebay.testing import Conformance


class TestConformance(Conformance):
    @pytest.fixture
    def backend(self) -> str:
        return "ncnn"
