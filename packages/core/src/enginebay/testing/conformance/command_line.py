"""The kit for ``pytest --pyargs enginebay.testing --backend NAME``."""

from __future__ import annotations

import pytest

from enginebay.testing.conformance import Conformance


class TestConformance(Conformance):
    """Every law, for the backend that the command line names."""

    @pytest.fixture
    def backend(self, request: pytest.FixtureRequest) -> str:
        """The backend's name."""
        return str(request.config.getoption("--backend"))
