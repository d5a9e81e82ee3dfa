"""Recorded samples come back as they were written, and nothing else is read."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginebay.errors import ArtifactError
from enginebay.tensors.samples import Sample, load_inputs, load_samples, save_samples

if TYPE_CHECKING:
    from pathlib import Path


def test_there_and_back(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello", pickle.dumps({"a": 1})])
def test_a_foreign_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.npz"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"'s\.npz' does not hold recorded samples"):
        load_samples(path)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, **{"0/inputs/x:object": np.array([{}], dtype=object)})
    with pytest.raises(ArtifactError, match="does not hold recorded samples"):
        load_samples(path)


def test_an_entry_of_another_kind_is_refused(tmp_path: Path) -> None:
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
def test_any_name_survives(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.mktemp("samples") / "s.npz"
    dtypes = [np.float32, np.bool_, ml_dtypes.bfloat16, np.int64]
    arrays = {name: np.ones((2, 0)[:i], dtypes[i]) for i, name in enumerate(names)}
    save_samples(path, [Sample(arrays, {"y": np.ones(1)})])
    (found,) = load_samples(path)
    assert list(found.inputs) == names
    for name, array in arrays.items():
        assert (found.inputs[name].dtype, found.inputs[name].shape) == (array.dtype, array.shape)


def test_recorded_inputs_come_from_samples_and_from_stacked_arrays(tmp_path: Path) -> None:
    samples = [Sample({"x": np.full((1, 2), n), "k": np.array(n)}, {}) for n in range(3)]
    save_samples(tmp_path / "samples.npz", samples)
    stacked = {name: np.stack([sample.inputs[name] for sample in samples]) for name in ("x", "k")}
    np.savez(tmp_path / "stacked.npz", **stacked)
    for found in (load_inputs(tmp_path / "samples.npz"), load_inputs(tmp_path / "stacked.npz")):
        assert [list(inputs) for inputs in found] == [["x", "k"]] * 3
        for inputs, sample in zip(found, samples, strict=True):
            np.testing.assert_array_equal(inputs["x"], sample.inputs["x"])
            np.testing.assert_array_equal(inputs["k"], sample.inputs["k"])


@pytest.mark.parametrize("content", [b"", b"hello", pickle.dumps({"a": 1})])
def test_foreign_recorded_inputs_are_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.npz"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"^'c\.npz' does not hold recorded inputs: "):
        load_inputs(path)


def test_probes_stay_probes_and_are_no_calibration_data(tmp_path: Path) -> None:
    x = {"x": np.arange(3.0)}
    save_samples(tmp_path / "s.npz", [Sample(x, x), Sample(x, {}, is_probe=True)])
    assert [sample.is_probe for sample in load_samples(tmp_path / "s.npz")] == [False, True]
    assert len(load_inputs(tmp_path / "s.npz")) == 1
