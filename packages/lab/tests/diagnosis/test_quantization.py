"""``lab.quantize``: an accurate 8-bit artifact with the fewest layers in floating point."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ArtifactExistsError, NotVerifiedError, UsageError
from enginebay_lab.diagnosis.quantization import Attempt, find_shortest_prefix
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packages.lab.tests.diagnosis.conftest import Layered


class Tried(NamedTuple):
    names: Sequence[str]
    passed: bool


@given(st.data())
def test_the_shortest_prefix_that_passes_is_found(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 200))
    needed = data.draw(st.integers(1, count - 1))
    order = [str(number) for number in range(count)]
    tried: list[int] = []

    def attempt(names: Sequence[str]) -> Any:
        tried.append(len(names))
        return Tried(names, len(names) >= needed)

    assert list(find_shortest_prefix(order, attempt).names) == order[:needed]
    assert len(set(tried)) == len(tried) <= 2 * count.bit_length()


def test_the_longest_attempt_is_returned_if_none_passes() -> None:
    found = find_shortest_prefix("abcde", lambda names: Tried(names, passed=False))
    assert (found.names, found.passed) == ("abcd", False)


@given(st.lists(st.booleans(), min_size=2, max_size=40))
def test_an_attempt_that_passed_is_returned_even_if_more_layers_do_not_help(
    passes: list[bool],
) -> None:
    tried: dict[int, bool] = {}

    def attempt(names: Sequence[int]) -> Any:
        tried[len(names)] = passes[len(names) - 1]
        return Tried(names, tried[len(names)])  # type: ignore[arg-type]

    found: Any = find_shortest_prefix(range(len(passes)), attempt)  # type: ignore[arg-type]
    assert found.passed == any(tried.values())
    assert found.passed or len(found.names) == len(passes) - 1
    assert max(tried) < len(passes)  # all of them are never tried


def make_attempt(verdict: str, drop: float | None, max_drop: float) -> Attempt:
    row = EvaluationRow(artifact="a", backend="b", metric="accuracy", drop=drop)
    deployment: Any = SimpleNamespace(verdict=verdict)
    return Attempt((), deployment, row, max_drop)


@pytest.mark.parametrize(
    ("verdict", "drop", "max_drop", "passed"),
    [
        ("verified", 0.01, 0.01, True),
        ("unverified", 0.01, 0.01, True),
        ("mismatched", 0.0, 0.01, False),
        ("crashed", 0.0, 0.01, False),
        ("verified", 0.011, 0.01, False),
        ("verified", math.nan, 0.01, False),
        ("verified", math.inf, 0.01, False),
        ("verified", None, 0.01, False),  # no value of the metric
        ("verified", -0.5, 0.0, True),  # better than PyTorch
        ("verified", 0.98 - 0.97, 0.01, True),  # 0.010000000000000009: one of 100 items
        ("verified", 1e-6, 0.0, False),
        ("verified", None, math.inf, False),
    ],
)
def test_an_attempt_passes_if_its_drop_is_allowed(
    verdict: str, drop: float | None, max_drop: float, passed: bool
) -> None:
    assert make_attempt(verdict, drop, max_drop).passed is passed


def quantize(layered: Layered, folder: Path, **given: Any) -> lab.Quantization:
    options = {
        **layered.options,
        "data": layered.data,
        "metrics": Rmse,
        "max_drop": 0.02,
        "work_dir": folder / "net",
        **given,
    }
    return lab.quantize(layered.model, layered.example, **options)


class Rmse:
    """The root of the mean square error, in comparison with PyTorch."""

    higher_is_better = False
    against = "reference"

    def __init__(self) -> None:
        self.reset()

    def update(self, outputs: Any, target: Any) -> None:
        (found,), (expected,) = _arrays(outputs), _arrays(target)
        self.errors.append(float(np.square(found - expected).mean()))

    def compute(self) -> float:
        return math.sqrt(sum(self.errors) / len(self.errors))

    def reset(self) -> None:
        self.errors: list[float] = []


def _arrays(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else [value]


def test_the_worst_layer_is_returned_to_floating_point(layered: Layered, tmp_path: Path) -> None:
    steps = []
    made = quantize(layered, tmp_path, watch=lambda step: steps.append((step.name, step.detail)))
    assert (made.kept, made.layers) == (layered.nodes[1:2], 3)
    assert made.accuracy.drop is not None
    assert 0 < made.accuracy.drop <= 0.02
    assert made.deployment.verdict == "verified"
    artifact = eb.open_artifact(tmp_path / "net")
    assert artifact.manifest.kept == made.kept
    # What was accurate in the trial is what was published.
    with eb.load(artifact) as engine:
        outputs = [engine(item)["output"] for item in layered.data]
    with torch.no_grad():
        expected = [layered.model(torch.from_numpy(item["input"])) for item in layered.data]
    found = Rmse()
    for output, reference in zip(outputs, expected, strict=True):
        found.update(output, reference.numpy())
    assert found.compute() == pytest.approx(made.accuracy.value, rel=1e-4)
    assert ("return layers", "1 of 3 to floating point") in steps
    assert list(dict(steps)) == ["quantize", "rank", "return layers", "deploy"]
    lines = str(made).splitlines()
    assert lines[0].split() == ["verdict", "verified"]
    assert lines[1] == f"accuracy           {made.describe()}"
    assert lines[2:4] == [
        "to floating point  1 of 3 layers",
        f"kept               {layered.nodes[1]}",
    ]
    assert repr(made) == f"<Quantization, verified: {made.describe()}>"
    assert made.describe().startswith("Rmse is 0.0")
    assert made.describe().endswith("on 16 items (allowed drop: 0.02)")
    document = json.loads(json.dumps(made.to_dict()))
    assert (document["kind"], document["layers"]) == ("quantization", 3)
    assert document["kept"] == list(made.kept)
    assert document["accuracy"]["drop"] == made.accuracy.drop


def test_no_layer_returns_if_8_bits_are_accurate_enough(layered: Layered, tmp_path: Path) -> None:
    made = quantize(layered, tmp_path, max_drop=10, verify=eb.VerifyOptions(rtol=2))
    assert (made.kept, made.layers) == ((), 0)
    assert "to floating point" not in str(made)


def test_a_drop_above_the_limit_is_refused(layered: Layered, tmp_path: Path) -> None:
    with pytest.raises(NotVerifiedError) as raised:
        quantize(layered, tmp_path, max_drop=0.0)
    assert str(raised.value).startswith("2 of 3 layers in floating point: Rmse is 0.0")
    assert "(allowed drop: 0); " in str(raised.value)
    assert raised.value.hint == "increase --max-drop, pass other --data, or add --allow-mismatch"
    assert not (tmp_path / "net").exists()


def test_an_engine_that_returns_nan_is_never_accurate(layered: Layered, tmp_path: Path) -> None:
    params = {"precision": "int8", "spoils": layered.nodes[2]}
    message = (
        r"^0 of 1 layers in floating point: Rmse has no finite value, and 0 in PyTorch on 16 items "
        r"\(allowed drop: 1e\+09\); mismatched "
    )
    with pytest.raises(NotVerifiedError, match=message):
        quantize(layered, tmp_path, params=params, max_drop=1e9, int8_keep=layered.nodes[:2])
    assert not (tmp_path / "net").exists()


def test_an_engine_that_crashes_is_refused_without_a_ranking(
    layered: Layered, tmp_path: Path
) -> None:
    steps: list[str] = []
    params = {"precision": "int8", "crashes": layered.nodes[2]}
    with pytest.raises(eb.EnginebayError, match="exit code 9"):
        quantize(layered, tmp_path, params=params, watch=lambda step: steps.append(step.name))
    assert set(steps) == {"quantize"}
    assert not (tmp_path / "net").exists()


def test_what_is_allowed_to_mismatch_is_published_with_its_verdict(
    layered: Layered, tmp_path: Path
) -> None:
    made = quantize(
        layered,
        tmp_path,
        max_drop=0.0,
        int8_keep=layered.nodes[:2],  # a single layer is left, which stays in 8 bits
        verify=eb.VerifyOptions(allow_mismatch=True),
    )
    assert (made.kept, made.layers) == ((), 1)
    assert made.accuracy.drop is not None
    assert made.accuracy.drop > 0
    assert eb.open_artifact(tmp_path / "net").manifest.kept == layered.nodes[:2]


@pytest.mark.parametrize("drop", [-0.1, math.nan, "0.1", None])
def test_a_drop_that_is_no_number_of_at_least_0_is_refused(
    layered: Layered, tmp_path: Path, drop: object
) -> None:
    with pytest.raises(UsageError) as raised:
        quantize(layered, tmp_path, max_drop=drop)
    message = f"max_drop is {drop!r}, expected 0 or more"
    assert (str(raised.value), raised.value.hint) == (message, "--max-drop 0.01")


def test_mistakes_are_refused_before_anything_is_deployed(layered: Layered, tmp_path: Path) -> None:
    steps: list[object] = []
    more = {"watch": steps.append}
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(ArtifactExistsError):
        quantize(layered, tmp_path, work_dir=tmp_path / "there", **more)
    with pytest.raises(UsageError, match=r"^unknown argument 'metric'") as raised:
        quantize(layered, tmp_path, metric="cosine", **more)
    assert raised.value.hint == "pass metrics="
    with pytest.raises(UsageError, match=r"^unknown metric 'acuracy'; available: accuracy, "):
        quantize(layered, tmp_path, metrics="acuracy", **more)
    message = r"^quantize requires layers in 8 bits, but precision fp32 has no 8-bit layers"
    with pytest.raises(UsageError, match=message):
        quantize(layered, tmp_path, params={"precision": "fp32"}, **more)
    assert steps == []


def test_a_metric_without_a_value_for_pytorch_is_refused(layered: Layered, tmp_path: Path) -> None:
    class Nothing(Rmse):
        def compute(self) -> float:
            return math.nan

    with pytest.raises(UsageError) as raised:
        quantize(layered, tmp_path, metrics=Nothing)
    assert str(raised.value).endswith("has no finite value for the PyTorch model on 16 items")
    assert raised.value.hint == "choose another metric, or other data"
