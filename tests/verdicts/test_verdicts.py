"""Some of the wrong pairs; ``nox -s verdicts`` deploys all pairs."""

from __future__ import annotations

import random

import pytest
import torch

from .engines import FAULTS, cases, verdict_of_engine
from .holders import USES, keepers
from .kinds import plants
from .models import MODELS
from .rewriters import pairs
from .trial import verdict_of_model, verdict_of_plant, verdict_of_rewriter

_SLICE = random.Random(1).sample([pair for pair in pairs() if pair.hidden], 8)
#: The last plant of each kind.
_PLANTS = list({plant.kind: plant for plant in plants()}.values())
_FAULTS = list(cases())[:: len(list(cases())) // len(FAULTS)]


@pytest.mark.parametrize("name", ["sign of ones", "numpy of a ramp", "any of ones"])
def test_model_that_branches_on_its_data_is_not_verified(name: str) -> None:
    assert verdict_of_model(MODELS[name], "onnxruntime") in ("mismatched", "refused")


@pytest.mark.parametrize("name", ["a cache", "chance"])
def test_model_with_state_or_randomness_is_unverified(name: str) -> None:
    assert verdict_of_model(MODELS[name], "onnxruntime") == "unverified"


@pytest.mark.parametrize("pair", _SLICE, ids=lambda pair: pair.name)
def test_rewriter_right_only_for_the_example_is_not_verified(pair) -> None:
    assert verdict_of_rewriter(pair, "onnxruntime") in ("mismatched", "unverified")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("plant", _PLANTS, ids=lambda plant: plant.kind)
def test_error_hidden_by_the_example_is_not_verified(plant) -> None:
    assert verdict_of_plant(plant, "onnxruntime") in ("mismatched", "unverified")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "method", "case"), _FAULTS, ids=lambda each: str(each)[:40])
def test_an_engine_that_is_right_for_some_arrays_is_refused(name, method, case) -> None:
    assert verdict_of_engine(method, case) in ("refused", "mismatched")


@pytest.mark.parametrize(("name", "build"), list(keepers(USES)), ids=lambda each: str(each)[:40])
def test_stored_state_changes_a_later_output(name: str, build) -> None:
    model, x = (case := build()).model, case.example
    model(x + 1)
    later = model(x)
    assert not torch.equal(later, build().model(x))


def test_rules_produce_at_least_200_distinct_plants() -> None:
    made = list(plants())
    assert len(made) >= 200
    assert len({(plant.kind, plant.operation, plant.name) for plant in made}) == len(made)
