"""The tests that ``pytest -p enginebay_testing --backend NAME`` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from enginebay_testing.conformance.suite import Conformance
from enginebay_testing.preset_backend import preset_backend
from enginebay_testing.pytest_plugin import OPTION, PARAMS

if TYPE_CHECKING:
    from collections.abc import Iterator


class CommandLineBackend:
    """Base class with the fixture ``backend``: the name from ``--backend``.

    With ``--params`` it is a backend with the same hooks and other defaults.
    """

    @pytest.fixture(scope="session")
    @staticmethod
    def backend(request: pytest.FixtureRequest) -> Iterator[str]:
        """The backend's name."""
        name, words = str(request.config.getoption(OPTION)), request.config.getoption(PARAMS)
        if not words:
            yield name
            return
        with preset_backend(name, words) as preset:
            yield preset


class TestConformance(CommandLineBackend, Conformance):
    """All conformance tests, for the backend that ``--backend`` names."""
