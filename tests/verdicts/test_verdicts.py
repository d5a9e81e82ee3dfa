"""Some of the wrong pairs; ``nox -s verdicts`` deploys all pairs."""

from __future__ import annotations

import random
import shutil
import threading
from typing import TYPE_CHECKING

import pytest
import torch

import enginebay as eb
from enginebay_testing import temporary_backend
from tests.faulty_engines import HIDDEN_FAULTS, RIGHT, SOURCE

from .engines import FAULTS, cases
from .jobs import all_jobs, known
from .kinds import plants
from .models import MODELS
from .rewriters import pairs
from .trial import verdict_of_model, verdict_of_plant, verdict_of_rewriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SLICE = random.Random(1).sample([pair for pair in pairs() if pair.hidden], 8)
#: The last plant of each kind that is not known to be verified.
_PLANTS = list({plant.kind: plant for plant in plants() if plant.title not in known()}.values())
#: A right model of each kind.
_RIGHT = {job.kind: job for job in all_jobs() if job.is_right and job.title not in known()}
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
    assert verdict_of_plant(plant) in ("mismatched", "unverified", "refused", "told")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", list(_RIGHT))
def test_right_model_is_verified(kind: str) -> None:
    assert _RIGHT[kind].verdict() == "verified"


def test_known_verdicts_are_those_of_jobs() -> None:
    assert known().keys() <= {job.title for job in all_jobs()}


def _deploy_three(folder: Path) -> list[Path]:
    """Deploy three models that differ in a constant, to an engine without a fault."""
    paths = [folder / name / "model" for name in ("one", "two", "three")]
    with temporary_backend("faulty", SOURCE.format(method=RIGHT)):
        for path, factor in zip(paths, (2, 3, 5), strict=True):
            eb.deploy(
                *(_Times(factor), torch.ones(3, 4)),
                backend="faulty",
                work_dir=path,
                export={"exporter": "torchscript"},
                verify={"probes": 0},
            )
    return paths


def _use(paths: list[Path]) -> Iterator[bool]:
    """Yield whether the results are right, in each way in which users call an engine."""
    x = torch.arange(12.0).reshape(3, 4).numpy()
    with eb.load(paths[0]) as first:
        yield (first({"x": 0 * x})["output"] == 0).all()
        filled = x.copy()
        for value in (1, 2):
            filled[...] = value
            yield (first({"x": filled})["output"] == 2 * value).all()
        for _ in range(2):
            yield (first({"x": x})["output"] == 2 * x).all()
        kept = first({"x": x})["output"]
        with eb.load(paths[1]) as second:
            yield (second({"x": x})["output"] == 3 * x).all()
            yield (kept == 2 * x).all()
            yield (first({"x": x})["output"] == 2 * x).all()
        found = []
        thread = threading.Thread(target=lambda: found.append(first({"x": x})["output"]))
        thread.start()
        thread.join()
        yield (found[0] == 2 * x).all()
    shutil.rmtree(paths[0])
    paths[2].rename(paths[0])
    with eb.load(paths[0]) as replaced:
        yield (replaced({"x": x})["output"] == 5 * x).all()


class _Times(torch.nn.Module):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


@pytest.mark.one_in(6)
@pytest.mark.parametrize("fault", [*HIDDEN_FAULTS, ""])
def test_each_hidden_fault_shows_in_use(fault: str, tmp_path: Path) -> None:
    paths = _deploy_three(tmp_path)
    method = HIDDEN_FAULTS[fault] if fault else RIGHT
    with temporary_backend("faulty", SOURCE.format(method=method)):
        assert all(_use(paths)) is not bool(fault)
