"""A slice of the wrong pairs; ``nox -s verdicts`` tries them all."""

from __future__ import annotations

import random

import pytest

from .models import MODELS
from .rewriters import pairs
from .trial import verdict_of_model, verdict_of_rewriter

_SLICE = random.Random(1).sample([pair for pair in pairs() if pair.hidden], 8)  # a choice


@pytest.mark.parametrize("name", ["sign of ones", "numpy of a ramp", "any of ones"])
def test_a_model_that_looks_at_its_data_is_not_verified(name: str) -> None:
    assert verdict_of_model(MODELS[name], "onnxruntime") in ("mismatched", "refused")


@pytest.mark.parametrize("name", ["a cache", "chance"])
def test_a_model_that_no_engine_can_be_is_unverified(name: str) -> None:
    assert verdict_of_model(MODELS[name], "onnxruntime") == "unverified"


@pytest.mark.parametrize("pair", _SLICE, ids=lambda pair: pair.name)
def test_a_rewriter_that_is_right_at_the_example_alone_is_seen_through(pair) -> None:
    assert verdict_of_rewriter(pair, "onnxruntime") in ("mismatched", "unverified")
