"""The tests that ``pytest -p enginebay_testing --backend NAME`` runs."""

from __future__ import annotations

import pytest

from enginebay_testing.conformance.suite import Conformance
from enginebay_testing.pytest_plugin import OPTION


class CommandLineBackend:
    """Base class with the fixture ``backend``, which returns the name from ``--backend``."""

    @pytest.fixture
    def backend(self, request: pytest.FixtureRequest) -> str:
        """The backend's name."""
        return str(request.config.getoption(OPTION))


class TestConformance(CommandLineBackend, Conformance):
    """All conformance tests, for the backend that ``--backend`` names."""
