"""Some of the operators: a wrong output beyond the example is corrected, refused or reported."""

from __future__ import annotations

import pytest

from .deployed import deployed
from .operators import ENGINES, OPERATORS, Operator

#: A case per cause: NaN, negative integers, integers beyond 32 bits, numbers near zero.
SOME = ("relu6", ">> 2 int64", "floor_divide int32", "index of an input", "cumsum int64", "expm1")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("operator", [one for one in OPERATORS if one.name in SOME], ids=str)
@pytest.mark.one_in(3)
def test_wrong_outputs_beyond_the_example_are_reported(operator: Operator, engine: str) -> None:
    outcome = deployed(operator, engine)
    assert not outcome.is_silent, outcome.wrong
