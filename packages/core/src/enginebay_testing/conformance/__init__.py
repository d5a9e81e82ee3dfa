"""The conformance kit: tests that every backend must pass (in the code: laws).

A backend's tests subclass :class:`Conformance`, and a fixture returns the backend's name::

    import pytest
    from enginebay_testing import Conformance

    class TestConformance(Conformance):
        @pytest.fixture
        def backend(self):
            return "myengine"

Without any code: ``pytest -p enginebay_testing --backend myengine``. In both cases, the pytest
plugin (``-p enginebay_testing``) prints a summary, and ``--conformance-report DIR`` writes
``DIR/myengine.json`` and ``DIR/myengine.md``.

Each group of tests has a file; the first sentence of a test's docstring states the requirement.
"""

from __future__ import annotations

import pytest

_FAMILIES = (
    *("artifacts", "commands", "discovery", "environment", "inference", "numbers", "params"),
    *("processes", "rewriting"),
)
pytest.register_assert_rewrite(*(f"{__name__}.{family}" for family in _FAMILIES))

from enginebay_testing.conformance.commands import CommandConformance  # noqa: E402
from enginebay_testing.conformance.opt_out import xfail  # noqa: E402  # rewriting comes first
from enginebay_testing.conformance.suite import Conformance  # noqa: E402

__all__ = ["CommandConformance", "Conformance", "xfail"]
