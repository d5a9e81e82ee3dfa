"""The verified range: which values and sizes of the inputs were compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.reference.recorded_samples import measure_values
from enginebay.verdict import ComparedSizes, VerifiedRange

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.usefixtures("loopback")


@pytest.mark.parametrize(
    ("arrays", "rows", "text"),
    [
        ([np.float32([-9.21, 0]), np.float32([8.1])], None, "x in -9.21..8.1"),
        ([np.float32([1, np.inf]), np.float32([np.nan, 3])], None, "x in 1..3"),
        ([np.float32([np.nan])], None, "x only NaN and infinity"),
        ([np.array([2, 19_995])], 50_257, "x below 19,996 of 50,257, 2 tried"),
        ([np.array([-1, 7])], 9, "x in -1..7"),
        ([np.array([7, 7])], None, "x only 7"),
        ([np.array([[1, 1, 0, 0]]), np.array([[1, 0, 0, 0]])], None, "x 25%..50% ones"),
        ([np.ones((2, 3), bool)], None, "x 100% ones"),
        ([np.array([True]), np.array([False])], None, "x in 0..1"),
        ([np.array([[0.0, 1.0], [0.5, 1.0]])], None, "x in 0..1"),
        ([np.full(3, 2, ml_dtypes.bfloat16)], None, "x only 2"),
        ([np.zeros((0, 3), np.float32)], None, ""),
        ([np.ones(2, np.complex64)], None, ""),
    ],
)
def test_the_range_of_an_input_is_described(arrays: Any, rows: int | None, text: str) -> None:
    assert measure_values(arrays, rows).describe("x") == text


KNOWN = VerifiedRange(
    inputs={
        "x": measure_values([np.float32([[-9, 8]])]),
        "ids": measure_values([np.array([[0, 19]])], 50),
        "mask": measure_values([np.array([[1, 1, 1, 0]])]),
    },
    sizes={"batch": ComparedSizes(sizes=(1, 2, 3, 4), limited=False, axes=(("x", 0), ("ids", 0)))},
)


@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        ({}, ()),
        ({"x": np.float32([[-9.1, 8.1]])}, ()),
        (
            {"x": np.float32([[-10, 8]])},
            ("'x' has values in -10..8, verified: x in -9..8",),
        ),
        (
            {"x": np.float32([[np.nan, 8]])},
            ("'x' has NaN or infinity, verified: x in -9..8",),
        ),
        (
            {"ids": np.array([[20, 20]])},
            ("'ids' has the value 20, verified: ids below 20 of 50, 2 tried",),
        ),
        (
            {"ids": np.array([[-1, 3]])},
            ("'ids' has values in -1..3, verified: ids below 20 of 50, 2 tried",),
        ),
        (
            {"mask": np.array([[1, 1, 1, 0], [0, 0, 0, 0]])},
            ("'mask' has a row with 0% ones, verified: mask 75% ones",),
        ),
        ({"x": np.zeros((0, 2), np.float32)}, ("'batch' is 0, verified: batch 1..4",)),
        ({"x": np.zeros((5, 2), np.float32)}, ("'batch' is 5, verified: batch 1..4",)),
    ],
)
def test_inputs_beyond_the_range_are_named(
    changed: Any, sentences: tuple[str, ...], as_tensors: bool
) -> None:
    inputs = {
        "x": np.float32([[0, 1]]),
        "ids": np.array([[1, 2]]),
        "mask": np.array([[1, 1, 1, 0]]),
        **changed,
    }
    if as_tensors:
        inputs = {name: torch.from_numpy(array) for name, array in inputs.items()}
    assert KNOWN.find_beyond(inputs) == sentences


def test_the_table_names_the_dynamic_dimensions(tmp_path: Path) -> None:
    deployment = eb.deploy(
        nn.Linear(3, 7),
        torch.randn(1, 3),
        backend="loopback",
        work_dir=tmp_path / "out",
        dynamic="batch",
    )
    assert deployment.verification.outputs[0].dims == ("batch", 7)
    (row,) = [line for line in str(deployment).splitlines() if line.startswith("output")]
    assert row.split()[2] == "batchx7"
    assert eb.verify(tmp_path / "out").outputs[0].dims == ("batch", 7)


def test_many_inputs_are_described_in_one_line() -> None:
    one = measure_values([np.array([1])])
    known = VerifiedRange(inputs={f"past.{n}": one for n in range(12)}, sizes={})
    assert known.describe().endswith("; past.7 only 1; 4 more inputs")


class Pooled(nn.Module):
    """The mean of the embedded tokens that the mask selects; it ignores one input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
        kept = self.table(ids) * mask[..., None]
        return kept.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def deploy(folder: Path, **options: Any) -> eb.Deployment:
    torch.manual_seed(0)
    example = (torch.randint(0, 20, (2, 4)), torch.ones(2, 4, dtype=torch.bool), torch.ones(2))
    return eb.deploy(Pooled(), example, backend="loopback", work_dir=folder / "out", **options)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((1,), "batch 1"),
        ((1, 2, 3, 4), "batch 1..4"),
        ((1, 2, 3, 8, 31, 32, 1000), "batch 1..3, 8, 31..32, 1,000"),
    ],
)
def test_the_range_of_a_dimension_names_every_compared_size(
    sizes: tuple[int, ...], text: str
) -> None:
    size = ComparedSizes(sizes=sizes, limited=True, axes=(("x", 0),))
    assert size.describe("batch") == text


def test_a_deployment_records_the_range_of_its_samples(tmp_path: Path, capsys) -> None:
    from enginebay.cli import main

    batch = {name: {0: ("batch", 1, 6)} for name in ("ids", "mask")}
    deployment = deploy(tmp_path, dynamic=batch, export={"exporter": "torchscript"})
    known = deployment.verification.basis.range
    samples = deployment.artifact.samples()
    assert list(known.inputs) == ["ids", "mask"], "the engine has no input 'unused'"
    ids = np.concatenate([sample.inputs["ids"].ravel() for sample in samples])
    assert (known.inputs["ids"].low, known.inputs["ids"].high) == (ids.min(), ids.max())
    assert known.inputs["ids"].rows == 50
    assert known.inputs["mask"].filled is not None
    assert known.sizes == {
        "batch": ComparedSizes(
            sizes=tuple(sorted({len(sample.inputs["ids"]) for sample in samples})),
            limited=True,
            axes=(("ids", 0), ("mask", 0)),
        )
    }
    assert eb.open_artifact(tmp_path / "out").manifest.verification.basis.range == known
    assert eb.verify(tmp_path / "out").basis.range == known
    main(["inspect", str(tmp_path / "out")])
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line]
    assert ["range", known.describe()] in lines
    for sample in samples:
        assert known.find_beyond(sample.inputs) == ()


def test_items_of_a_data_set_count(tmp_path: Path) -> None:
    item = {"ids": np.full((2, 4), 49), "mask": np.zeros((2, 4), bool)}
    deployment = deploy(tmp_path, data=[{**item, "unused": np.ones(2, np.float32)}])
    known = deployment.verification.basis.range
    assert known.inputs["ids"].high == 49
    assert known.inputs["mask"].filled[0] == 0


def test_an_open_size_of_a_file_says_up_to_where_it_was_tried(tmp_path: Path) -> None:
    file = eb.export(nn.Linear(3, 2), torch.ones(2, 3), path=tmp_path / "net.onnx", dynamic="batch")
    deployment = eb.deploy(
        str(file.path), torch.randn(2, 3), backend="loopback", work_dir=tmp_path / "out"
    )
    assert deployment.verification.extent().endswith(", 'batch' at 2 only")


def test_an_artifact_of_an_earlier_version_has_no_range(tmp_path: Path) -> None:
    deploy(tmp_path)
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    del manifest["verification"]["basis"]["range"]
    manifest["verification"]["basis"]["tried"] = {"batch": 4}
    path.write_text(json.dumps(manifest), encoding="utf-8")
    assert eb.verify(tmp_path / "out").basis.range is None
    assert "'batch'" not in eb.open_artifact(tmp_path / "out").manifest.verification.headline()


@pytest.mark.parametrize(
    "index", [lambda x: x * 2_654_435 % 97, lambda x: x // 3600 % 24, lambda x: (x > 1900).long()]
)
def test_an_input_from_which_an_index_is_computed_is_no_index(index: Any, tmp_path: Path) -> None:
    class Hashed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(97, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.table(index(x))

    example = torch.tensor([[1890, 2001], [170_000, 180_000]])
    deployment = eb.deploy(Hashed(), example, backend="loopback", work_dir=tmp_path / "out")
    assert deployment.verification.basis.range.inputs["x"].rows is None
    assert " of 97" not in deployment.verification.basis.range.describe()
