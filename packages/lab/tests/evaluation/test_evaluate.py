"""`lab.evaluate` and `enginebay evaluate`: values compared with PyTorch's, and ``--max-drop``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import enginebay as eb
import enginebay_lab as lab

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

#: The artifact "bad" is wrong on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:the recorded verdict of:enginebay.VerdictWarning")

DATA = ("--data", "data.npz", "--model", "net.py:build")
ACCURACY = ("--metric", "accuracy")


@pytest.mark.usefixtures("here")
def test_the_drop_the_agreement_and_the_worst_items() -> None:
    found = lab.evaluate(["good", "bad"], "data.npz", "accuracy", model="net.py:build")
    good, bad = found.rows
    assert (good.artifact, good.backend, good.metric) == ("good", "loopback", "accuracy")
    assert (good.value, good.reference, good.drop, good.count) == (0.9, 0.9, 0.0, 40)
    assert good.agreement == 1.0
    assert bad.agreement == 0.0
    assert bad.value is not None
    assert bad.drop == pytest.approx(0.9 - bad.value)
    assert len(bad.worst) == 5
    assert [one.error for one in bad.worst] == pytest.approx(
        [2.0] * 5
    )  # -y is twice the length of y away from y
    assert found.failures() == []
    (failure,) = found.failures(0.01)
    assert failure == (
        f"'bad': accuracy is {bad.value:g}, and 0.9 in PyTorch: a drop of {bad.drop:g} on 40 "
        "items, above 0.01"
    )
    assert found.data.count == 40


def test_the_command(cli: Run) -> None:
    found = lab.evaluate(["good", "bad"], "data.npz", "accuracy", model="net.py:build")
    assert f"{found}\n" == cli("evaluate", "good", "bad", *DATA, *ACCURACY).out
    assert repr(found) == "<Evaluation on data.npz, rows: 2>"
    ran = cli("evaluate", "good", *DATA, "--metric", "accuracy", "--max-drop", "0.01")
    assert (ran.code, ran.err) == (0, "")
    header, row, note = ran.out.splitlines()
    assert re.fullmatch(r"note +\d+ of 40 items lie beyond what 'good' was verified with", note)
    columns = "ARTIFACT METRIC VALUE PYTORCH DROP ITEMS AGREEMENT WORST ITEMS"
    assert " ".join(header.split()) == columns
    assert row.split()[:7] == ["good", "accuracy", "0.9", "0.9", "0", "40", "100.00%"]


def test_max_drop_prints_one_error_line_with_the_figures(cli: Run) -> None:
    ran = cli("evaluate", "good", "bad", *DATA, *ACCURACY, "--max-drop", "0.01", "--json")
    assert ran.code == 1
    assert ran.err.startswith("error: 'bad': accuracy is ")
    assert ran.err.endswith(" on 40 items, above 0.01\n")
    assert ran.err.count("\n") == 1
    document = json.loads(ran.out)
    assert document["schema"] == 1
    assert [row["artifact"] for row in document["rows"]] == ["good", "bad"]
    assert {"artifact", "metric", "value", "reference", "drop", "count"} <= set(document["rows"][0])
    assert len(document["failures"]) == 1


def test_lower_is_better_for_an_error(cli: Run) -> None:
    with np.load("data.npz") as data:
        x = data["x"]
    np.savez("errors.npz", x=x, target=np.zeros((40, 1, 3), np.float32))
    (row,) = lab.evaluate("bad", "errors.npz", "mean-absolute-error", model="net.py:build").rows
    assert row.value == pytest.approx(row.reference)
    x[:] = 0
    model_of = eb.load("good")({"x": x[0]})["output"]
    np.savez("errors.npz", x=x, target=np.repeat(model_of[None], 40, 0))
    (row,) = lab.evaluate("bad", "errors.npz", "mean-absolute-error", model="net.py:build").rows
    assert row.reference == pytest.approx(0, abs=1e-6)
    assert row.drop == pytest.approx(2 * np.abs(model_of).mean(), rel=1e-5)


def test_without_a_model_there_are_values_only(cli: Run) -> None:
    ran = cli("evaluate", "good", "--data", "data.npz", "--metric", "accuracy")
    assert ran.code == 0
    assert ran.out.splitlines()[1].split()[:7] == ["good", "accuracy", "0.9", "-", "-", "40", "-"]
    assert ran.out.endswith(
        "metrics are not compared with PyTorch's; to compare, add --model MODEL\n"
    )
    ran = cli("evaluate", "good", "--data", "data.npz", "--metric", "accuracy", "--max-drop", "1")
    assert (ran.code, ran.err) == (
        2,
        "error: --max-drop requires a model to compare with\nhint: add --model MODEL\n",
    )
    ran = cli("evaluate", "good", "--data", "data.npz", "--metric", "cosine")
    assert ran.code == 2
    assert ran.err.startswith("error: metric 'cosine' requires a PyTorch model to compare with")


def test_a_list_and_a_part_of_a_file_are_data_sets(here: Path) -> None:
    x = np.random.default_rng(1).normal(size=(7, 1, 4)).astype(np.float32)
    items: list[Any] = [({"x": each}, 0) for each in x]
    (row,) = lab.evaluate("good", items, "cosine", model="net.py:build").rows
    assert (row.count, row.reference) == (7, pytest.approx(1))
    (row,) = lab.evaluate("good", eb.DataSet("data.npz", take=5), "accuracy").rows
    assert row.count == 5


def test_rows_and_labelled_batches_are_items(here: Path) -> None:
    held = np.load("data.npz")
    x, target = torch.from_numpy(held["x"][:, 0]), torch.from_numpy(held["target"])
    rows = torch.utils.data.TensorDataset(x, target)
    for data in (rows, torch.utils.data.DataLoader(rows, batch_size=16)):
        (row,) = lab.evaluate("good", data, "accuracy").rows
        assert (row.count, row.value) == (40, 0.9)
