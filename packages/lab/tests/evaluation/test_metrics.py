"""Metrics: built in, of users, of torchmetrics and of plugins; and wrong metrics."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay_lab as lab
from enginebay.environment import install_command
from enginebay.errors import InputError, MissingDependencyError, UsageError
from enginebay_lab.evaluation.guarded_metric import GuardedMetric
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

SCORES = np.float32([[0.1, 0.7, 0.2]])

OWN = """\
class Share:
    def __init__(self): self.reset()
    def reset(self): self.hits = self.count = 0
    def update(self, outputs, target):
        assert outputs.shape == (1, 3) and outputs.dtype == "float32" and target.shape == ()
        self.hits += int(outputs.argmax() == target)
        self.count += 1
    def compute(self): return self.hits / self.count

share = Share()
def build(): return Share()

class Fails(Share):
    def update(self, outputs, target): raise ZeroDivisionError("by zero")
class Exits(Share):
    def update(self, outputs, target): raise SystemExit(3)
class Sums(Share):
    def compute(self): return {"a": 1}
class Late(Share):
    def compute(self): raise KeyError("late")
class Partial:
    def update(self, outputs, target): pass
    def compute(self): return 0
"""


def metric_value(metric: Any, *items: tuple[Any, Any]) -> Any:
    (source,) = find_metrics(metric)
    built = source.build()
    for item in items:
        built.update(*item)
    return built.compute()


def test_accuracy_and_top_k() -> None:
    assert metric_value("accuracy", (SCORES, 1), (SCORES, 2)) == 0.5
    assert metric_value("top-2", (SCORES, 2), (SCORES, 0)) == 0.5
    assert metric_value("top-5", (SCORES, 2)) == 1.0  # of three classes
    assert metric_value("accuracy", (np.repeat(SCORES, 4, 0), np.array([1, 1, 0, 1]))) == 0.75
    pixels = np.float32([[[0.1, 0.9], [0.9, 0.1]]])  # a class for each pixel
    assert metric_value("accuracy", (pixels, np.array([[1, 1]]))) == 0.5


def test_nan_outputs_count_as_wrong() -> None:
    nothing = np.full((1, 3), np.nan, np.float32)
    assert metric_value("accuracy", (nothing, 0), (SCORES, 1)) == 0.5
    assert metric_value("top-3", (nothing, 0)) == 0.0
    assert np.isnan(metric_value("mean-absolute-error", (nothing, np.zeros((1, 3)))))


def test_mean_absolute_error_and_cosine() -> None:
    assert metric_value(
        "mean-absolute-error", (SCORES, SCORES + 1), (SCORES, SCORES[0])
    ) == pytest.approx(0.5)
    assert metric_value("cosine", (SCORES, SCORES), (SCORES, -SCORES)) == pytest.approx(0)
    both = {"a": SCORES, "b": SCORES}
    assert metric_value("cosine", (both, both)) == pytest.approx(1)
    zeros = np.zeros((1, 3), np.float32)
    assert metric_value("cosine", (zeros, zeros)) == 1
    assert metric_value("cosine", (zeros, SCORES)) == 0


@pytest.mark.parametrize(
    ("metric", "outputs", "target", "message"),
    [
        ("accuracy", SCORES, 3, "the target 3 is not a class index: the output has 3 classes"),
        ("accuracy", SCORES, -1, "the target -1 is not a class index: the output has 3 classes"),
        ("accuracy", SCORES, 1.0, "the target has dtype float64, expected integer class indices"),
        (
            *("accuracy", SCORES, np.array([1, 2])),
            "the target has shape (2,), expected (1,) for an output of shape (1, 3)",
        ),
        (
            *("accuracy", {"a": SCORES, "b": SCORES}, 1),
            "the metric accepts one output, and the model has several: a, b",
        ),
        (
            *("mean-absolute-error", SCORES, np.zeros(4)),
            "the target has shape (4,), expected the output's shape (1, 3)",
        ),
        ("mean-absolute-error", SCORES, "a", "the target has dtype <U1, expected a numeric dtype"),
    ],
)
def test_targets_that_do_not_fit_are_refused(
    metric: str, outputs: Any, target: Any, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        metric_value(metric, (outputs, target))
    assert str(caught.value) == message


@pytest.mark.parametrize("attribute", ["Share", "share", "build"])
def test_a_class_an_object_or_a_function_in_a_file(here: Path, attribute: str) -> None:
    (here / "own.py").write_text(OWN)
    metrics = [f"own.py:{attribute}", "accuracy"]
    own, known = lab.evaluate(["good"], "data.npz", metrics, model="net.py:build").rows
    assert (own.metric, own.value, own.reference) == (f"own.py:{attribute}", 0.9, 0.9)
    assert known.value == 0.9


def test_an_object_in_python_is_copied(here: Path) -> None:
    namespace: dict[str, Any] = {}
    exec(OWN, namespace)
    given = namespace["share"]
    (row,) = lab.evaluate("good", "data.npz", given).rows
    assert (row.metric, row.value, given.count) == ("Share", 0.9, 0)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            "own.py:Fails",
            "metric 'own.py:Fails' raised ZeroDivisionError on item 0 of 'data.npz': ",
        ),
        ("own.py:Exits", "metric 'own.py:Exits' raised SystemExit on item 0 of 'data.npz': 3"),
        ("own.py:Sums", "'good': own.py:Sums: metric 'own.py:Sums' returned a dict, expected one "),
        ("own.py:Late", "'good': own.py:Late: metric 'own.py:Late' raised KeyError: 'late'"),
    ],
)
def test_a_metric_that_raises_is_named(here: Path, cli: Run, metric: str, message: str) -> None:
    (here / "own.py").write_text(OWN)
    ran = cli("evaluate", "good", "--data", "data.npz", "--metric", metric)
    assert ran.code == 1
    assert ran.err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("metric", "message", "hint"),
    [
        (
            "acuracy",
            (
                "unknown metric 'acuracy'; available: accuracy, top-5, mean-absolute-error, "
                "cosine, file.py:attr, torchmetrics:NAME, SCHEME:NAME of a plugin"
            ),
            "did you mean 'accuracy'?",
        ),
        (
            "own.py:Partial",
            "metric 'own.py:Partial', of type Partial, has no method 'reset'",
            "a metric requires the methods update(outputs, target), compute() and reset()",
        ),
        ("own.py:Shares", "'own.py:Shares': there is no 'Shares' in 'own.py'", "did you mean"),
    ],
)
def test_unknown_metrics_are_refused(
    here: Path, cli: Run, metric: str, message: str, hint: str
) -> None:
    (here / "own.py").write_text(OWN)
    ran = cli("evaluate", "good", "--data", "data.npz", "--metric", metric)
    assert ran.code == 2
    error, advice = ran.err.splitlines()
    assert error == f"error: {message}"
    assert advice.startswith(f"hint: {hint}")


def test_metrics_with_equal_names_are_refused() -> None:
    with pytest.raises(UsageError, match="two metrics are called 'accuracy'"):
        find_metrics(["accuracy", "accuracy"])
    with pytest.raises(UsageError, match="no metric to compute"):
        find_metrics([])


def test_a_plugin_brings_metrics(here: Path) -> None:
    plugin = (
        f"import enginebay as eb\n{OWN}\n"
        "@eb.hookimpl\n"
        "def metrics():\n"
        "    return {'shares': lambda request: {'own': Share}[request.name]}\n"
    )
    with temporary_backend("shares", plugin, group="enginebay.plugins"):
        (row,) = lab.evaluate("good", "data.npz", "shares:own").rows
        with pytest.raises(UsageError, match="metric 'shares:none' cannot be built: KeyError"):
            find_metrics("shares:none")
    assert row.value == 0.9


@pytest.mark.skipif(
    importlib.util.find_spec("torchmetrics") is not None, reason="torchmetrics is installed here"
)
def test_missing_torchmetrics_names_its_package() -> None:
    with pytest.raises(MissingDependencyError, match="requires torchmetrics, which") as caught:
        find_metrics("torchmetrics:MeanSquaredError")
    assert caught.value.hint == install_command("enginebay-lab[metrics]")


def test_a_number_that_no_float_holds_is_infinite() -> None:
    class Huge:
        def update(self, outputs: Any, target: Any) -> None: ...
        def reset(self) -> None: ...
        def compute(self) -> int:
            return 10**400

    (source,) = find_metrics(Huge())
    assert GuardedMetric(source, "the data").value() is None
