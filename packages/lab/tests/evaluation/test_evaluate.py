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
from enginebay.errors import InputError

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


def loader(*tensors: torch.Tensor, size: int, **options: Any) -> Any:
    rows = torch.utils.data.TensorDataset(*tensors)
    return torch.utils.data.DataLoader(rows, batch_size=size, **options)


class Scorer(torch.nn.Module):
    """Returns the scores of each row and, with ``total``, one sum over the batch."""

    def __init__(self, *, total: bool = False) -> None:
        super().__init__()
        self.total = total

    def forward(self, x: torch.Tensor) -> Any:
        return (x.flip(1), x.sum().unsqueeze(0)) if self.total else x.flip(1)


def deployed(loopback: str, path: Path, model: torch.nn.Module, batch: int, **options: Any) -> Path:
    """Deploy a model whose engine negates the outputs, so that it never agrees with the model."""
    eb.deploy(
        *(model, torch.rand(batch, 3)),
        backend=loopback,
        work_dir=path,
        params={"gain": -1.0},
        export=eb.ExportOptions(exporter="torchscript"),
        verify=eb.VerifyOptions(allow_mismatch=True, probes=0),
        **options,
    )
    return path


ROWS = torch.rand(37, 3, generator=torch.Generator().manual_seed(0))
LABELS = ROWS.flip(1).argmax(1)

FORMS = {
    "labelled": lambda: loader(ROWS, LABELS, size=8),
    "unlabelled": lambda: loader(ROWS, size=8),
    "dicts": lambda: torch.utils.data.DataLoader(
        [{"x": x, "target": y} for x, y in zip(ROWS, LABELS, strict=True)], batch_size=8
    ),
    "rows": lambda: torch.utils.data.TensorDataset(ROWS, LABELS),
    "tensor": lambda: ROWS,
}


@pytest.mark.parametrize("form", FORMS)
def test_an_item_is_a_row_and_never_a_batch(form: str, loopback: str, tmp_path: Path) -> None:
    model = Scorer()
    work_dir = deployed(loopback, tmp_path / "open", model, 1, dynamic="batch")
    found = lab.evaluate(work_dir, FORMS[form](), "cosine", model=model)
    (row,) = found.rows
    assert (row.count, row.agreement, found.data.count) == (37, 0.0, 37)
    assert row.value == pytest.approx(-1)
    (row,) = lab.evaluate(work_dir, eb.DataSet(FORMS[form](), take=10), "cosine", model=model).rows
    assert row.count == 10
    if form in ("labelled", "dicts", "rows"):
        (row,) = lab.evaluate(work_dir, FORMS[form](), "accuracy").rows
        assert (row.count, row.value) == (37, 0.0)


def test_the_rows_of_fixed_batches_are_items(loopback: str, tmp_path: Path) -> None:
    model = Scorer()
    fixed = deployed(loopback, tmp_path / "fixed", model, 8)
    whole = loader(ROWS, LABELS, size=8, drop_last=True)
    found = lab.evaluate(fixed, whole, ["accuracy", "cosine"], model=model)
    assert {(row.count, row.agreement, row.reference) for row in found.rows} == {(32, 0.0, 1.0)}
    assert not found.batch_note
    # Beside an artifact with a dynamic batch, the fixed size decides.
    opened = deployed(loopback, tmp_path / "open", model, 1, dynamic="batch")
    both = lab.evaluate([opened, fixed], whole, "accuracy", model=model)
    assert [row.count for row in both.rows] == [32, 32]
    with pytest.raises(InputError, match=r"^item 4 of .* has size 5 in dimension 0") as caught:
        lab.evaluate(fixed, loader(ROWS, LABELS, size=8), "accuracy", model=model)
    assert caught.value.hint == (
        "the artifacts accept batches of 8: batch_size=8, drop_last=True; or deploy with --dynamic "
        "x:0 to make this dimension dynamic"
    )


def test_an_output_without_a_batch_axis_makes_a_fixed_batch_one_item(
    loopback: str, tmp_path: Path
) -> None:
    model = Scorer(total=True)
    fixed = deployed(loopback, tmp_path / "fixed", model, 8)
    found = lab.evaluate(fixed, loader(ROWS, size=8, drop_last=True), "cosine", model=model)
    assert [row.count for row in found.rows] == [4]
    note = "an item is a whole batch of 8, as 'output_1' has no batch axis"
    assert found.batch_note == note
    assert note in str(found)


def test_targets_of_several_parts_are_split_with_their_batch(loopback: str, tmp_path: Path) -> None:
    class Parts:
        seen: list[Any] = []  # read by the test

        def update(self, outputs: Any, target: Any) -> None:
            self.seen.append((outputs.shape, target["label"].item(), target["box"].shape))

        def compute(self) -> float:
            return 1.0

        def reset(self) -> None:
            self.seen.clear()

    work_dir = deployed(loopback, tmp_path / "one", Scorer(), 1)
    data = [(ROWS[n : n + 4], {"label": LABELS[n : n + 4], "box": ROWS[n : n + 4]}) for n in (0, 4)]
    (row,) = lab.evaluate(work_dir, data, Parts()).rows
    assert row.count == 8
    assert Parts.seen == [((1, 3), label, (3,)) for label in LABELS[:8].tolist()]


def test_other_weights_than_the_artifacts_fail_the_gate(cli: Run, loopback: str) -> None:
    x = np.random.default_rng(1).normal(size=(7, 1, 4)).astype(np.float32)
    np.savez("items.npz", x=x)
    own_weights = {"linear.weight": torch.eye(3, 4), "linear.bias": torch.zeros(3)}
    torch.save(own_weights, "own.pt")
    eb.deploy(
        "net.py:build?weights=own.pt",
        backend=loopback,
        work_dir="own",
        export=eb.ExportOptions(exporter="torchscript"),
        verify=eb.VerifyOptions(probes=0),
    )
    own = eb.open_artifact("own").named_model()
    text = (
        "'own' was made from other weights than the model's, so its drop is not what the engine "
        f"loses; compare it with its own: --model '{own}'"
    )
    flags = ("evaluate", "own", "--data", "items.npz", "--metric", "cosine")
    ran = cli(*flags, "--model", "net.py:build")
    assert ran.code == 0
    assert f"\nwarning  {text}\n" in ran.out
    ran = cli(*flags, "--model", "net.py:build", "--max-drop", "9")
    assert (ran.code, ran.err) == (1, f"error: {text}\n")
    ran = cli(*flags, "--model", own, "--max-drop", "0.01")
    assert (ran.code, ran.err) == (0, "")
    assert "warning" not in ran.out
