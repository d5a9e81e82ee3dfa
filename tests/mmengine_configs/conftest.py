"""Where more configs lie, to compare and to time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--configs", help="a folder of mmengine configs that do not live here")
