"""The laws that every backend keeps.

Without TensorRT those that need no device run, and the others are listed with what check-env says.
Where the stand-ins take the place of TensorRT's libraries, they answer under a name that says so.
"""

from __future__ import annotations

import pytest

from enginebay.testing import Conformance


class TestConformance(Conformance):
    @pytest.fixture
    def backend(self, tensorrt_or_stand_in: str) -> str:
        return tensorrt_or_stand_in
