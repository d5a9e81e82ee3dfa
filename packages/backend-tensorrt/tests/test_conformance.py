"""The laws for every backend.

Without TensorRT the laws that need no device run, and the others are skipped with a reason.
If stand-ins replace TensorRT's libraries, the backend has a name that shows it.
"""

from __future__ import annotations

import pytest

from enginebay_testing import Conformance


class TestConformance(Conformance):
    @pytest.fixture
    def backend(self, tensorrt_or_stand_in: str) -> str:
        return tensorrt_or_stand_in
