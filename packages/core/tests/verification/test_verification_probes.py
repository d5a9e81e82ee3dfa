"""Probes resemble their example, stay in its range if documented, and are reproducible."""

from __future__ import annotations

import numpy as np
import pytest

from enginebay.errors import UsageError
from enginebay.models import DynamicDim
from enginebay.verification.probes import ProbeGenerator, ProbeSettings

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
OPEN = {"x": {0: DynamicDim("batch", 1, 16)}}


def by_label(example, dynamic=None, *, precision="fp32", below=None, seed=0, **settings):
    drawing = ProbeGenerator(example, ProbeSettings(**settings), below=below, seed=seed)
    probes = drawing.draw_all(dynamic or {}, precision)
    found = {probe.label: probe for probe in probes}
    assert len(found) == len(probes)
    return found


def test_the_kinds_in_their_order():
    assert list(by_label({"x": X}, OPEN)) == [
        *("the sizes x:1x8", "the sizes x:16x8"),
        *("redrawn", "the sizes x:9x8", "the sizes x:7x8"),
        *("the other sign", "ten times the spread", "zeros"),
    ]


def test_the_same_example_has_the_same_probes_and_another_seed_others():
    first, again, other = (by_label({"x": X}, seed=seed) for seed in (0, 0, 1))
    for label, probe in first.items():
        assert np.array_equal(probe.inputs["x"], again[label].inputs["x"])
    assert not np.array_equal(first["redrawn"].inputs["x"], other["redrawn"].inputs["x"])


def test_redrawn_and_permuted_values_stay_in_the_examples_range():
    found = by_label({"x": X, "mask": np.array([True, False])})
    assert not found["redrawn"].beyond
    assert not found["permuted"].beyond
    assert np.array_equal(np.sort(found["permuted"].inputs["x"], None), np.sort(X, None))
    assert found["ten times the spread"].beyond
    assert 5 < found["ten times the spread"].inputs["x"].std() < 15


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_example_of_one_value_has_probes_of_unit_spread(value):
    found = by_label({"x": np.full((8, 64), value, np.float32)})
    assert found["redrawn"].beyond
    assert found["redrawn"].inputs["x"].mean() == pytest.approx(value, abs=0.2)
    assert found["redrawn"].inputs["x"].std() == pytest.approx(1, abs=0.2)


def test_integers_stay_between_the_examples_and_masks_keep_their_counts():
    ids = np.array([[3, 9, 5, 7]])
    mask = np.array([[1, 1, 1, 0]])
    found = by_label({"ids": ids, "mask": mask})
    assert list(found) == ["redrawn", "permuted", "integers turned over"]
    for probe in (found["redrawn"], found["permuted"]):
        assert 3 <= probe.inputs["ids"].min() <= probe.inputs["ids"].max() <= 9
        assert probe.inputs["mask"].sum() == 3


def test_sizes_have_rows_that_differ_also_where_the_example_has_one():
    found = by_label({"x": X[:1]}, OPEN)
    for probe in found.values():
        rows = probe.inputs["x"]
        if len(rows) > 1:
            assert not np.array_equal(rows[0], rows[1])
    largest = found["the sizes x:16x8"]
    assert largest.required
    assert largest.inputs["x"].shape == largest.tiled["x"].shape == (16, 8)


def test_a_domain_holds_every_probe():
    image = np.random.default_rng(0).random((3, 8, 8)).astype(np.float32)
    opened, domain = {"image": {0: DynamicDim("n", 1, 9)}}, {"image": (0, 1)}
    for probe in by_label({"image": image}, opened, domain=domain, large=True).values():
        assert 0 <= probe.inputs["image"].min() <= probe.inputs["image"].max() <= 1
        assert not probe.beyond


def test_large_values_are_drawn_besides_the_others_where_they_are_asked_for():
    example = {"x": X, "ids": np.array([1, 2, 3])}
    assert list(by_label(example, count=0, large=True)) == ["large floats", "large integers"]
    found = by_label(example, large=True)
    assert np.abs(found["large floats"].inputs["x"]).max() > 1000
    assert found["large integers"].inputs["ids"].min() >= 2**24
    assert list(by_label({"mask": np.array([True, False])}, count=0, large=True)) == []


def test_indices_of_one_value_are_drawn_from_all_rows_of_their_table():
    example = {"ids": np.zeros((4, 50), np.int64)}
    assert np.unique(by_label(example)["redrawn"].inputs["ids"]).tolist() == [0]
    redrawn = by_label(example, below={"ids": 30})["redrawn"]
    assert redrawn.beyond
    assert {0, 29} <= set(redrawn.inputs["ids"].ravel().tolist()) <= set(range(30))


def test_half_precision_is_not_stretched():
    found = by_label({"x": X.astype(np.float16)})
    assert list(found) == ["redrawn", "permuted", "the other sign", "zeros"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_no_more_than_requested(count):
    assert len(by_label({"x": X}, count=count)) == count
    assert len(by_label({"x": X}, OPEN, count=count)) == 2 + count  # the range itself is compared


def test_a_negative_count_is_refused():
    with pytest.raises(UsageError, match="invalid number of probes -1: expected"):
        ProbeSettings(count=-1)


@pytest.mark.parametrize("array", [np.zeros((0, 3), np.float32), np.float32(2.0)], ids=str)
def test_empty_inputs_and_numbers(array):
    for probe in by_label({"x": np.asarray(array)}, large=True).values():
        assert probe.inputs["x"].shape == np.shape(array)
        assert probe.inputs["x"].dtype == np.float32


def test_what_was_calibrated_is_tried_at_its_sizes_alone():
    found = by_label({"x": X}, OPEN, precision="int8", calibrated="int8")
    assert list(found) == ["the sizes x:1x8", "the sizes x:16x8"]
    assert np.array_equal(found["the sizes x:16x8"].inputs["x"][:4], X)
    assert by_label({"x": X}, precision="fp8", calibrated="fp8") == {}


def test_integers_that_look_like_numbers_are_tried_on_the_other_side_of_zero():
    numbers = np.array([[3, 9, 5, 7]])
    example = {"signed": numbers, "pixels": numbers.astype(np.uint8), "mask": numbers % 2}
    found = by_label(example | {"length": np.array([4, 4])})["integers turned over"]
    assert found.beyond
    assert -10 <= found.inputs["signed"].min() <= found.inputs["signed"].max() <= -4
    assert found.inputs["pixels"].min() >= 246
    assert found.inputs["mask"].min() >= 0
    assert (found.inputs["length"] == 4).all()
    assert "integers turned over" not in by_label({"ids": numbers}, below={"ids": 30})


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (64, 64)])
def test_nan_in_some_places_of_each_float(shape):
    x, ids = np.ones(shape, np.float16), np.array([1, 2])
    found = ProbeGenerator({"x": x, "ids": ids}, ProbeSettings()).draw_non_finite()
    assert found is not None
    assert 1 <= np.isnan(found["x"]).sum() <= 1 + x.size / 16
    assert not np.isnan(x).any()
    assert found["ids"] is ids


def test_no_nan_where_there_is_no_float_or_no_room_for_it():
    nan = np.where(X > 1, np.float32(np.nan), X)
    for example in ({"ids": np.array([1, 2])}, {"x": nan}, {"x": X[:0]}):
        assert ProbeGenerator(example, ProbeSettings()).draw_non_finite() is None
    for settings in (ProbeSettings(0), ProbeSettings(domain={"x": (0, 1)})):
        assert ProbeGenerator({"x": X}, settings).draw_non_finite() is None
