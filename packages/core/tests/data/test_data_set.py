"""Data sets: every source, reproducible items, and errors that name the wrong item."""

from __future__ import annotations

import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import enginebay as eb
from enginebay.data import CheckedItems
from enginebay.errors import InputError, ModelSourceError, UsageError
from enginebay.tensors import Sample, save_samples
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

X = np.arange(60, dtype=np.float32).reshape(10, 2, 3)
SPECS = (eb.TensorSpec("x", "float32", (2, 3)),)


def rows(data: eb.DataSet, specs: Any = SPECS) -> list[int]:
    """Return the indices in X of a data set's items."""
    return [int(item.inputs["x"].flat[0]) // 6 for item in data.items(specs)]


@pytest.fixture
def stacked(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=X, target=np.arange(10))
    return tmp_path / "data.npz"


def test_stacked_file_has_an_item_per_row(stacked: Path) -> None:
    data = eb.DataSet(stacked)
    assert len(data) == 10
    assert rows(data) == rows(data) == list(range(10))
    assert [int(item.target) for item in data.items(SPECS)] == list(range(10))
    assert all(item.inputs["x"].flags.writeable for item in data.items(SPECS))


@pytest.mark.parametrize("array", [np.asfortranarray(X), X[::-1][::-1]], ids=["fortran", "strided"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_stacked_file_is_read_in_any_order_and_compression(
    tmp_path: Path, save: Any, array: Any
) -> None:
    save(tmp_path / "data.npz", x=array)
    assert rows(eb.DataSet(str(tmp_path / "data.npz"))) == list(range(10))
    assert len(eb.DataSet(tmp_path / "data.npz", take=3)) == 3


@pytest.mark.parametrize("array", [X, np.asfortranarray(X)], ids=["c", "fortran"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_part_has_the_items_of_its_range(tmp_path: Path, save: Any, array: Any) -> None:
    save(tmp_path / "data.npz", x=array, target=np.arange(10))
    whole = eb.DataSet(tmp_path / "data.npz")
    list(whole.items(SPECS))
    part = whole.part(6, 9)
    assert [(item.number, int(item.target)) for item in part.items(SPECS)] == [
        *((6, 6), (7, 7), (8, 8))
    ]
    assert rows(part) == [6, 7, 8]
    assert part.digests(0, 3) == whole.digests(6, 9) != b""
    some = eb.DataSet(tmp_path / "data.npz", take=5, seed=1)
    assert rows(some.part(2, 4)) == rows(some)[2:4]
    assert rows(whole.part(8, 20)) == [8, 9]


def test_part_reads_no_earlier_item(tmp_path: Path) -> None:
    class Noting(list[Any]):
        def __getitem__(self, index: Any) -> Any:
            read.append(index)
            return super().__getitem__(index)

    read: list[int] = []
    assert rows(eb.DataSet(Noting(X)).part(6, 9)) == [6, 7, 8]
    assert read == [6, 7, 8]
    assert rows(eb.DataSet(lambda: iter(X)).part(6, 9)) == [6, 7, 8]

    large = np.zeros((64, 256, 256), np.float32)  # 16 MB
    np.savez(tmp_path / "data.npz", x=large)
    with (tmp_path / "data.npz").open("r+b") as file:
        file.seek(8 << 20)
        file.write(b"xxxx")  # in item 31, which has a checksum with those before it
    assert len(list(eb.DataSet(tmp_path / "data.npz").part(40, 42))) == 2
    with pytest.raises(InputError, match="Bad CRC-32"):
        list(eb.DataSet(tmp_path / "data.npz"))


def test_a_stacked_file_is_read_item_by_item(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((64, 256, 256), np.float32))  # 16 MB
    tracemalloc.start()
    count = sum(1 for _ in eb.DataSet(tmp_path / "data.npz").items())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 64
    assert peak < 4 << 20


def test_a_folder_has_an_item_in_each_file_and_their_sizes_may_vary(tmp_path: Path) -> None:
    for n in (2, 1, 3):
        np.savez(tmp_path / f"{n}.npz", x=np.full((n, 3), n, np.float32), target=n)
    spec = eb.TensorSpec("x", "float32", ("n", 3))
    found = [
        (item.inputs["x"].shape, int(item.target)) for item in eb.DataSet(tmp_path).items([spec])
    ]
    assert found == [((1, 3), 1), ((2, 3), 2), ((3, 3), 3)]


def test_recorded_samples_are_items_without_the_probes(tmp_path: Path) -> None:
    samples = [Sample({"x": X[n]}, {"y": X[n]}, "probe" if n == 1 else "item") for n in range(3)]
    save_samples(tmp_path / "samples.npz", samples)
    assert rows(eb.DataSet(tmp_path / "samples.npz")) == [0, 2]


@pytest.mark.parametrize(
    "text", ["source.py:LIST", "source.py:generator", "source.py:Loader", "source.py:pairs"]
)
def test_python_object_is_found_by_its_name(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source.py").write_text(
        """
import numpy as np, torch
X = np.arange(60, dtype=np.float32).reshape(10, 2, 3)
LIST = [{"x": x} for x in X]
def generator():
    yield from LIST
class Loader:
    def __iter__(self):
        return iter(LIST)
def pairs():
    return [(torch.from_numpy(x), n) for n, x in enumerate(X)]
"""
    )
    data = eb.DataSet(text, take=4)
    assert len(rows(data)) == len(data) == 4
    assert data.record().source == text
    assert rows(data) == rows(data)


def test_batches_of_a_torch_loader_are_items() -> None:
    held = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.arange(10))
    data = eb.DataSet(torch.utils.data.DataLoader(held, batch_size=2))
    items = list(data.items([eb.TensorSpec("x", "float32", ("n", 2, 3))]))
    assert [item.inputs["x"].shape for item in items] == [(2, 2, 3)] * 5
    assert items[4].target.tolist() == [8, 9]


IMAGES = torch.rand(10, 3, 4, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(10)
PAIRS = torch.utils.data.TensorDataset(IMAGES, LABELS)


def loader(data: Any = PAIRS, size: int = 4) -> Any:
    return torch.utils.data.DataLoader(data, batch_size=size)


class Pairs:
    def __iter__(self) -> Iterator[Any]:
        return zip(IMAGES, LABELS, strict=True)


#: Common sources: rows and batches, with labels or without.
ROWS = {
    "tensor": IMAGES,
    "array": IMAGES.numpy(),
    "whole": IMAGES[:, None],
    "tensors": torch.utils.data.TensorDataset(IMAGES),
    "iterable": Pairs(),
    "list": list(Pairs()),
    "pairs": PAIRS,
    "loader of 1": loader(size=1),
    "loader of 4": loader(),
    "loader of all": loader(size=10),
    "loader alone": loader(IMAGES),
    "named": [{"x": image, "target": label} for image, label in Pairs()],
}


@pytest.mark.parametrize("batch", [1, "batch"])
@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("split", ["labelled", "all"])
def test_rows_and_batches_fit_the_models_batch_size(form: str, batch: Any, split: Any) -> None:
    spec = eb.TensorSpec("x", "float32", (batch, 3, 4, 4))
    data = eb.DataSet(ROWS[form]).for_inputs([spec], split=split)
    for _ in range(2):  # the same every time
        items = list(data.items([spec]))
        found = np.concatenate([item.inputs["x"] for item in items])
        np.testing.assert_array_equal(found, IMAGES.numpy())
    # Its batches have no target for each row.
    is_whole = batch != 1 and form == "loader alone" and split != "all"
    assert len(data) == len(items) == (10 if not is_whole else len(ROWS[form]))
    targets = [item.target for item in items if item.target is not None]
    labels = np.concatenate([np.atleast_1d(one) for one in targets]).tolist() if targets else []
    has_labels = form not in ("tensor", "array", "whole", "tensors", "loader alone")
    assert labels == (LABELS.tolist() if has_labels else [])


@pytest.mark.parametrize("batch", [1, "batch"])
@pytest.mark.parametrize("size", [None, 1, 4])
@pytest.mark.parametrize("labelled", [True, False])
def test_unnamed_tensors_are_assigned_to_inputs_in_order(
    batch: int | str, size: int | None, labelled: bool
) -> None:
    ids, mask = torch.arange(30).reshape(10, 3), torch.ones(10, 3)
    tensors = torch.utils.data.TensorDataset(ids, mask, *([LABELS] if labelled else []))
    specs = (
        eb.TensorSpec("ids", "int64", (batch, 3)),
        eb.TensorSpec("mask", "float32", (batch, 3)),
    )
    data = eb.DataSet(tensors if size is None else loader(tensors, size)).for_inputs(specs)
    items = list(data.items(specs))
    for name, whole in (("ids", ids), ("mask", mask)):
        found = np.concatenate([item.inputs[name] for item in items])
        np.testing.assert_array_equal(found, whole.numpy())
    targets = [item.target for item in items if item.target is not None]
    assert np.hstack([*targets, []]).tolist() == (LABELS.tolist() if labelled else [])


def test_take_counts_rows_and_not_batches() -> None:
    spec = eb.TensorSpec("x", "float32", (1, 3, 4, 4))
    first = eb.DataSet(loader(), take=6).for_inputs([spec])
    assert [int(item.target) for item in first.items([spec])] == [0, 1, 2, 3, 4, 5]
    assert len(list(first.some(3).items([spec]))) == 3
    drawn = eb.DataSet(PAIRS, take=6).for_inputs([spec])
    assert [int(one.target) for one in drawn.items([spec])] == [one.number for one in drawn.items()]
    assert len(drawn) == 6


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (torch.rand(4, 3, 5, 5), "item 0 of the Tensor .* has size 5 in dimension 2 of "),
        (IMAGES[0], "item 0 of the Tensor .* has 2 dimensions .*, expected 4: x "),
        (IMAGES[:0], "the Tensor given as data contains no items"),
        (loader(LABELS), "item 0 of the DataLoader .* has dtype int64, expected float32"),
        (LABELS, "item 0 of the Tensor .* has dtype int64, expected float32"),
        (IMAGES.double(), "item 0 of the Tensor .* has dtype float64, expected float32"),
        (loader([*IMAGES, IMAGES[0, 0]], 1), "item 10 of the DataLoader .* has 3 dimensions"),
    ],
)
def test_items_that_do_not_fit_the_input_are_refused(source: Any, message: str) -> None:
    spec = eb.TensorSpec("x", "float32", (1, 3, 4, 4))
    with pytest.raises(InputError, match=message) as caught:
        list(eb.DataSet(source).for_inputs([spec]).items([spec]))
    both = "convert it: x.astype('float32') or x.to(torch.float32)"
    assert caught.value.hint == both or "dtype" not in str(caught.value)


def test_fixed_batch_size_requires_batches_of_that_size() -> None:
    spec = eb.TensorSpec("x", "float32", (5, 3, 4, 4))
    data = eb.DataSet(loader(size=5)).for_inputs([spec])
    assert [item.target.tolist() for item in data.items([spec])] == LABELS.view(2, 5).tolist()
    with pytest.raises(
        InputError, match=r"has size 4 in dimension 0 .*, expected 5: x float32\[5, "
    ):
        list(eb.DataSet(loader()).for_inputs([spec]).items([spec]))


SOURCE = """
import numpy as np
import enginebay as eb

@eb.hookimpl
def data_sources():
    return {"ramp": lambda request: [{"x": np.full((2, 3), int(request.name) * 6, np.float32)}]}
"""


def test_plugin_provides_data_for_a_scheme() -> None:
    with temporary_backend("ramps", SOURCE, group="enginebay.plugins"):
        assert rows(eb.DataSet("ramp:7")) == [7]


@given(take=st.integers(1, 12), seed=st.integers(0, 3))
def test_the_same_seed_takes_the_same_items(take: int, seed: int) -> None:
    values = [{"x": x} for x in X]
    found = rows(eb.DataSet(values, take, seed))
    assert found == sorted(set(found)) == rows(eb.DataSet(values, take, seed))
    assert len(found) == min(take, 10)


def test_take_reads_the_first_items_of_a_stream() -> None:
    started = []

    def stream() -> Iterator[dict[str, Any]]:
        for x in X:
            started.append(1)
            yield {"x": x}

    assert rows(eb.DataSet(stream, take=2)) == [0, 1]
    assert len(started) <= 3, "no more is read than is used"


def test_subset_of_a_subset_is_reproducible() -> None:
    data = eb.DataSet(eb.DataSet([{"x": x} for x in X], take=6), take=3)
    found = rows(data)
    assert len(found) == 3
    assert set(found) <= set(rows(eb.DataSet([{"x": x} for x in X], take=6)))
    assert rows(data.some(2)) == rows(data.some(2))
    assert set(rows(data.some(2))) < set(found)
    assert rows(eb.DataSet(lambda: iter(X)).some(2)) == [0, 1]
    assert rows(eb.DataSet(eb.DataSet(X))) == list(range(10))


def test_torch_data_set_is_read_by_index() -> None:
    class Images(torch.utils.data.Dataset):
        read: list[int] = []

        def __len__(self) -> int:
            return len(X)

        def __getitem__(self, index: int) -> Any:
            self.read.append(index)
            return torch.from_numpy(X[index]), index

    data = eb.DataSet(Images(), take=2)
    assert rows(data) == Images.read
    assert len(Images.read) == 2


def test_subset_and_whole_have_their_own_lengths() -> None:
    whole = eb.DataSet(lambda: iter(X))
    assert [len(whole.some(2)), len(whole), len(whole.some(2))] == [2, 10, 2]


def test_record_has_the_used_indices_and_their_digest(stacked: Path) -> None:
    data = eb.DataSet(stacked, take=3, seed=1)
    used = rows(data)
    record = data.record()
    assert (record.source, record.count, list(record.indices)) == (str(stacked), 3, used)
    again = eb.DataSet([{"x": X[n]} for n in used])
    rows(again)
    assert again.record().digest == record.digest


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "contains no items"),
        ([{"x": X[0]}, {}], "item 1 of the list given as data: input 'x' is missing"),
        ([{"x": X[0], "y": X[0]}], "item 0 of the list given as data: unknown input 'y'"),
        ([{"x": X[0]}, {"x": X[0].astype("f8")}], "item 1 .* has dtype float64, expected float32"),
        ([{"x": X[0].T}], "item 0 .* has size 3 in dimension 0"),
        ([{"x": X[0]}, {"x": X[0] * np.nan}], r"item 1 .* input 'x' contains NaN at \[0, 0\]"),
        ([{"x": "text"}], "item 0 .* input 'x' has dtype object, expected float32"),
        ([(X[0], X[1], X[2])], r"item 0 .* expected 1 inputs \(x\), found 3 arrays without names"),
    ],
)
def test_a_wrong_item_is_named(values: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(eb.DataSet(values).items(SPECS))


@pytest.mark.parametrize(
    ("extra", "hint"),
    [
        ({"label": 1}, "rename 'label' to 'target', or leave 'label' out"),
        ({"label": 1, "target": 2}, "leave 'label' out"),
    ],
)
def test_a_target_under_another_name_is_renamed(extra: dict[str, int], hint: str) -> None:
    with pytest.raises(InputError) as caught:
        list(eb.DataSet([{"x": X[0], **extra}]).items(SPECS))
    assert caught.value.hint == hint


def calibrate(values: list[Any]) -> list[Any]:
    return list(CheckedItems(eb.DataSet(values), SPECS))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_in_calibration_data_is_refused(value: float) -> None:
    wrong = X[1].copy()
    wrong[1, 2] = value
    with pytest.raises(InputError) as caught:
        calibrate([{"x": X[0]}, {"x": wrong}])
    assert str(caught.value) == (
        f"item 1 of the list given as data: input 'x' contains {value} at [1, 2], and calibration "
        "requires finite values"
    )
    assert caught.value.hint == (
        "replace infinity by a finite number; only a mask of 0 and -inf is accepted"
    )


def test_a_mask_of_infinity_calibrates() -> None:
    mask = np.where(X[0] > 0, 0, -np.inf).astype(np.float32)
    assert len(calibrate([{"x": mask}])) == 1


def test_infinite_values_are_accepted() -> None:
    values = np.array([[np.inf, -np.inf, 0]], np.float32)
    (item,) = eb.DataSet([values]).items([eb.TensorSpec("x", "float32", (1, 3))])
    assert np.array_equal(item.inputs["x"], values)


def test_unnamed_arrays_are_named_by_the_specs() -> None:
    """Deploy reads the example before it knows the name of the model's input."""
    data = eb.DataSet([np.zeros((2, 3), np.float32)] * 2)
    assert next(iter(data)).inputs.keys() == {""}
    assert len(list(data.items([eb.TensorSpec("x", "float32", (2, 3))]))) == 2


def test_different_items_on_second_reading_are_refused() -> None:
    generator = np.random.default_rng(0)
    data = eb.DataSet(lambda: ({"x": generator.random((2, 3), np.float32)} for _ in range(3)))
    list(data.items(SPECS))
    with pytest.raises(InputError, match=r"item 0 .* the item has changed") as caught:
        list(data.items(SPECS))
    assert "disable shuffling" in str(caught.value.hint)


def test_fewer_items_on_second_reading_are_refused() -> None:
    lengths = iter([3, 2])
    data = eb.DataSet(lambda: [{"x": X[n]} for n in range(next(lengths))])
    list(data.items(SPECS))
    with pytest.raises(InputError, match="expected 3 items as before, found 2"):
        list(data.items(SPECS))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (iter([1]), "the list_iterator given as data can be read only once"),
        (5, "the int given as data is not a data set"),
        ({"x": X}, "the dict given as data is not a data set"),
        (torch.tensor(1.0), "the Tensor given as data is not a data set"),
        ("nowhere.npz", "no data set 'nowhere.npz'"),
        ("sub/nowhere", "no data set 'sub/nowhere'"),
        (lambda: 5, "the function given as data raised TypeError: .int. object is not iterable"),
        (lambda: 1 / 0, "the function given as data raised ZeroDivisionError: division by zero"),
        (lambda: sys.exit(0), "the function given as data raised SystemExit: 0"),
    ],
    ids=lambda value: str(type(value).__name__),
)
def test_invalid_source_is_refused(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(eb.DataSet(source))


def test_items_may_be_texts(tmp_path: Path) -> None:
    texts = np.array([["a", "b"], ["né", "long text"], ["a", "c"]])
    np.savez(tmp_path / "texts.npz", x=texts)
    digests = set()
    for source in (tmp_path / "texts.npz", [{"x": row.astype(object)} for row in texts]):
        data = eb.DataSet(source)
        assert [item.inputs["x"].tolist() for item in data] == texts.tolist()
        digests.add(data.record().digest)
    assert len(digests) == 1
    with pytest.raises(InputError, match="expected numbers or texts, found dtype object"):
        list(eb.DataSet([{"x": np.array(["a", None], object)}]))


def test_missing_python_file_is_refused() -> None:
    with pytest.raises(ModelSourceError, match=r"no file 'nowhere\.py'"):
        eb.DataSet("nowhere.py:data")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(InputError, match=r"text\.npz' cannot be read as a data set"):
        eb.DataSet(tmp_path / "text.npz")
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="Python objects, which are not read"):
        eb.DataSet(tmp_path / "objects.npz")
    np.savez(tmp_path / "lengths.npz", x=X, target=np.arange(9))
    with pytest.raises(
        InputError, match="expected arrays of equal length along axis 0, found x 10, target 9"
    ):
        eb.DataSet(tmp_path / "lengths.npz")


@pytest.mark.parametrize("take", [0, -1])
def test_take_below_1_is_refused(take: int) -> None:
    with pytest.raises(UsageError, match="take: expected 1 or more, found"):
        eb.DataSet([X], take=take)
