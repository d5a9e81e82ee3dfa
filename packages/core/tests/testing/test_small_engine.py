"""A backend whose engine lacks most operators passes every law by declarations alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packages.core.tests.testing import small_engine

import enginebay as eb
from enginebay_testing import Conformance, temporary_backend
from enginebay_testing.conformance.kit import Kit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def _small() -> Iterator[None]:
    with temporary_backend("small", small_engine.__name__):
        yield


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("model", ["pointwise", "reductions"])
def test_the_small_engines_numbers_are_correct(model: str, tmp_path: Path) -> None:
    assert Kit("small", tmp_path).deploy(model, tmp_path / "artifact").verdict == "verified"


@pytest.mark.usefixtures("_small")
def test_the_small_engine_gets_a_tiny_model_of_its_operators() -> None:
    report = eb.get_backend("small").check_env()
    assert report.ok, report.checks
    assert "aten.relu" not in small_engine.OPERATORS


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
class TestSmallEngine(Conformance):
    @pytest.fixture
    def backend(self) -> str:
        return "small"
