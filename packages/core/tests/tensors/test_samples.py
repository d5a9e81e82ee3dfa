"""Recorded samples are loaded as they were saved; other files are refused."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from enginebay.errors import ArtifactError
from enginebay.tensors.packed_array import PackedArray
from enginebay.tensors.samples import Sample, load_samples, save_samples

if TYPE_CHECKING:
    from pathlib import Path


def test_samples_survive_saving_and_loading(tmp_path: Path) -> None:
    samples = [
        Sample(
            {
                "a/b:c": np.arange(3),
                "file": np.ones((2, 0), np.float32),
                "h": np.ones(2, ml_dtypes.bfloat16),
            },
            {"allow_pickle": np.array(True), "y.0": np.array([np.nan, -np.inf], np.float16)},
        )
        for _ in range(11)
    ]
    save_samples(tmp_path / "s.npz", samples)
    found = load_samples(tmp_path / "s.npz")
    assert len(found) == 11
    for sample in found:
        for wanted, group in zip(samples[0][:2], sample[:2], strict=True):
            assert list(group) == list(wanted)
            for name, array in wanted.items():
                assert group[name].dtype == array.dtype
                np.testing.assert_array_equal(group[name], array)


def test_samples_may_contain_texts(tmp_path: Path) -> None:
    texts = np.array([["a", "né"], ["", "long text"]])
    sample = Sample({"objects": texts.astype(object)}, {"fixed": texts})
    save_samples(tmp_path / "s.npz", [sample])
    inputs, outputs, _ = load_samples(tmp_path / "s.npz")[0]
    for found in (inputs["objects"], outputs["fixed"], PackedArray.of(inputs["objects"]).array()):
        assert found.dtype == object
        assert found.tolist() == texts.tolist()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello", pickle.dumps({"a": 1})])
def test_file_without_samples_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.npz"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"'s\.npz' does not contain recorded samples"):
        load_samples(path)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, **{"0/inputs/x:object": np.array([{}], dtype=object)})
    with pytest.raises(ArtifactError, match="does not contain recorded samples"):
        load_samples(path)


def test_unexpected_entry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, x=np.ones(1))
    with pytest.raises(ArtifactError, match="unexpected entry 'x'"):
        load_samples(path)


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\\"), max_size=8),
        unique=True,
        max_size=4,
    )
)
def test_any_input_name_survives_saving_and_loading(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    path = tmp_path_factory.mktemp("samples") / "s.npz"
    dtypes = [np.float32, np.bool_, ml_dtypes.bfloat16, np.int64]
    arrays = {name: np.ones((2, 0)[:i], dtypes[i]) for i, name in enumerate(names)}
    save_samples(path, [Sample(arrays, {"y": np.ones(1)})])
    (found,) = load_samples(path)
    assert list(found.inputs) == names
    for name, array in arrays.items():
        assert (found.inputs[name].dtype, found.inputs[name].shape) == (array.dtype, array.shape)


def test_kind_of_a_sample_survives_saving_and_loading(tmp_path: Path) -> None:
    x = {"x": np.arange(3.0)}
    kinds = ["example", "item", "probe"]
    save_samples(tmp_path / "s.npz", [Sample(x, x, kind) for kind in kinds])
    assert [sample.kind for sample in load_samples(tmp_path / "s.npz")] == kinds
