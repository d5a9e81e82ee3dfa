"""The conformance kit: the laws that every backend keeps, as tests.

A backend's own tests subclass :class:`Conformance`, one fixture names the backend::

    import pytest
    from enginebay.testing import Conformance

    class TestConformance(Conformance):
        @pytest.fixture
        def backend(self):
            return "myengine"

With no code at all: ``pytest --pyargs enginebay.testing --backend myengine``. Either way
``--conformance-report DIR`` writes ``DIR/myengine.json`` and ``DIR/myengine.md``.

The laws stand in one file for each family; the first sentence of each docstring is the law.
"""

from __future__ import annotations

import pytest

_FAMILIES = (
    *("artifacts", "commands", "discovery", "environment", "inference", "numbers", "params"),
    *("processes", "rewriting"),
)
pytest.register_assert_rewrite(*(f"{__name__}.{family}" for family in _FAMILIES))

from enginebay.testing.conformance.commands import CommandConformance  # noqa: E402
from enginebay.testing.conformance.opt_out import xfail  # noqa: E402  # rewriting comes first
from enginebay.testing.conformance.suite import Conformance  # noqa: E402

__all__ = ["CommandConformance", "Conformance", "xfail"]
