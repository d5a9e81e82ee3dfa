"""Probes resemble their example, stay in its documented range, and are reproducible."""

from __future__ import annotations

import numpy as np
import pytest

from enginebay.errors import UsageError
from enginebay.params import DynamicDim
from enginebay.reference.probes import ProbeGenerator, ProbeSettings

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
OPEN = {"x": {0: DynamicDim("batch", 1, 16)}}


def draw_by_label(example, dynamic=None, *, precision="fp32", below=None, seed=0, **settings):
    drawn = ProbeGenerator(
        example,
        ProbeSettings(**settings),
        dynamic=dynamic,
        precision=precision,
        below=below,
        seed=seed,
    ).draw_all()
    probes = {probe.label: probe for probe in drawn}
    assert len(probes) == len(drawn)
    return probes


def test_probes_are_drawn_in_a_fixed_order():
    assert list(draw_by_label({"x": X}, OPEN)) == [
        *("the sizes x:1x8", "the sizes x:16x8"),
        *("redrawn", "the sizes x:9x8", "the sizes x:7x8"),
        *("the other sign", "ten times the spread", "zeros", "a thousandth"),
    ]


def test_probes_of_texts_have_the_words_of_the_example():
    words = np.array(["the cat sat", "a dog"], object)
    found = [probe.inputs["x"] for probe in draw_by_label({"x": words}).values()]
    assert any(array.tolist() != words.tolist() for array in found)
    for array in found:
        assert [len(text.split()) for text in array] == [3, 2]
        assert {word for text in array for word in text.split()} <= {
            "the",
            "cat",
            "sat",
            "a",
            "dog",
        }
    categories = np.array([["red"], ["green"], ["blue"]], object)
    for probe in draw_by_label({"x": categories}).values():
        assert sorted(probe.inputs["x"].flat) == ["blue", "green", "red"]


def test_probes_depend_only_on_example_and_seed():
    first, again, other = (draw_by_label({"x": X}, seed=seed) for seed in (0, 0, 1))
    for label, probe in first.items():
        assert np.array_equal(probe.inputs["x"], again[label].inputs["x"])
    assert not np.array_equal(first["redrawn"].inputs["x"], other["redrawn"].inputs["x"])


def test_redrawn_and_permuted_values_stay_in_the_examples_range():
    probes = draw_by_label({"x": X, "mask": np.array([True, False])})
    assert not probes["redrawn"].beyond
    assert not probes["permuted"].beyond
    assert np.array_equal(np.sort(probes["permuted"].inputs["x"], None), np.sort(X, None))
    assert probes["ten times the spread"].beyond
    assert 5 < probes["ten times the spread"].inputs["x"].std() < 15


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_probes_of_a_constant_example_have_unit_spread(value):
    probes = draw_by_label({"x": np.full((8, 64), value, np.float32)})
    assert probes["redrawn"].beyond
    assert probes["redrawn"].inputs["x"].mean() == pytest.approx(value, abs=0.2)
    assert probes["redrawn"].inputs["x"].std() == pytest.approx(1, abs=0.2)


def test_redrawn_integers_stay_in_range_and_masks_keep_their_sum():
    ids = np.array([[3, 9, 5, 7]])
    mask = np.array([[1, 1, 1, 0]])
    probes = draw_by_label({"ids": ids, "mask": mask})
    assert list(probes) == [
        *("mask: padding at the left", "mask: mostly padding", "mask: an empty row"),
        *("redrawn", "permuted", "integers turned over"),
    ]
    for probe in (probes["redrawn"], probes["permuted"]):
        assert 3 <= probe.inputs["ids"].min() <= probe.inputs["ids"].max() <= 9
        assert probe.inputs["mask"].sum() == 3


def test_probes_of_larger_sizes_have_different_rows():
    probes = draw_by_label({"x": X[:1]}, OPEN)
    for probe in probes.values():
        rows = probe.inputs["x"]
        if len(rows) > 1:
            assert not np.array_equal(rows[0], rows[1])
    largest = probes["the sizes x:16x8"]
    assert largest.required
    assert largest.inputs["x"].shape == largest.tiled["x"].shape == (16, 8)


def test_every_probe_stays_in_the_domain():
    image = np.random.default_rng(0).random((3, 8, 8)).astype(np.float32)
    opened, domain = {"image": {0: DynamicDim("n", 1, 9)}}, {"image": (0, 1)}
    for probe in draw_by_label({"image": image}, opened, domain=domain, large=True).values():
        assert 0 <= probe.inputs["image"].min() <= probe.inputs["image"].max() <= 1
        assert not probe.beyond


def test_large_values_are_drawn_on_request():
    example = {"x": X, "ids": np.array([1, 2, 3])}
    assert list(draw_by_label(example, count=0, large=True)) == ["large floats", "large integers"]
    probes = draw_by_label(example, large=True)
    assert np.abs(probes["large floats"].inputs["x"]).max() > 1000
    assert probes["large integers"].inputs["ids"].min() >= 2**24
    assert list(draw_by_label({"mask": np.array([True, False])}, count=0, large=True)) == []


def test_constant_indices_are_redrawn_from_the_whole_table():
    example = {"ids": np.zeros((4, 50), np.int64)}
    assert np.unique(draw_by_label(example)["redrawn"].inputs["ids"]).tolist() == [0]
    redrawn = draw_by_label(example, below={"ids": 30})["redrawn"]
    assert redrawn.beyond
    assert {0, 29} <= set(redrawn.inputs["ids"].ravel().tolist()) <= set(range(30))


def test_half_precision_has_a_probe_of_a_little_larger_spread():
    probes = draw_by_label({"x": X.astype(np.float16)})
    assert list(probes) == [
        *("redrawn", "permuted", "the other sign", "three times the spread", "zeros"),
        "a thousandth",
    ]
    assert 2 < probes["three times the spread"].inputs["x"].std() < 4


def test_examples_from_0_to_1_are_probed_with_pixels():
    image = np.random.default_rng(0).random((3, 8, 8)).astype(np.float32)
    pixels = draw_by_label({"image": image})["pixels up to 255"].inputs["image"]
    assert pixels.min() >= 0
    assert 200 < pixels.max() <= 255
    assert "pixels up to 255" not in draw_by_label({"x": X})
    assert "pixels up to 255" not in draw_by_label({"image": image}, precision="fp16")


def test_indices_are_probed_at_the_ends_of_their_table():
    ids = np.array([[3, 9, 5, 7]])
    drawn = draw_by_label({"ids": ids}, below={"ids": 30})["ids: other rows of its table"]
    assert drawn.inputs["ids"].min() == 0
    assert drawn.inputs["ids"].max() == 29


def test_boundaries_of_a_search_stay_sorted():
    edges = np.linspace(0, 1, 6, dtype=np.float32)
    generator = ProbeGenerator({"x": X, "edges": edges}, ProbeSettings(), ascending={"edges"})
    for probe in generator.draw_all():
        drawn = probe.inputs["edges"]
        assert (np.sort(drawn) == drawn).all(), probe.label


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_number_of_probes_is_as_requested(count):
    assert len(draw_by_label({"x": X}, count=count)) == count
    assert len(draw_by_label({"x": X}, OPEN, count=count)) == 2 + count  # 2: the ends


def test_a_negative_count_is_refused():
    with pytest.raises(UsageError, match="invalid number of probe inputs -1: expected"):
        ProbeSettings(count=-1)


@pytest.mark.parametrize("array", [np.zeros((0, 3), np.float32), np.float32(2.0)], ids=str)
def test_probes_of_empty_inputs_and_scalars_keep_the_shape(array):
    for probe in draw_by_label({"x": np.asarray(array)}, large=True).values():
        assert probe.inputs["x"].shape == np.shape(array)
        assert probe.inputs["x"].dtype == np.float32


def test_calibrated_models_are_probed_only_at_other_sizes():
    probes = draw_by_label({"x": X}, OPEN, precision="int8", calibrated="int8")
    assert list(probes) == ["the sizes x:1x8", "the sizes x:16x8"]
    assert np.array_equal(probes["the sizes x:16x8"].inputs["x"][:4], X)
    assert draw_by_label({"x": X}, precision="fp8", calibrated="fp8") == {}


def test_numeric_integers_are_probed_with_the_opposite_sign():
    numbers = np.array([[3, 9, 5, 7]])
    example = {"signed": numbers, "pixels": numbers.astype(np.uint8), "mask": numbers % 2}
    probe = draw_by_label(example | {"length": np.array([4, 4])})["integers turned over"]
    assert probe.beyond
    assert -10 <= probe.inputs["signed"].min() <= probe.inputs["signed"].max() <= -4
    assert probe.inputs["pixels"].min() >= 246
    assert probe.inputs["mask"].min() >= 0
    assert (probe.inputs["length"] == 4).all()
    assert "integers turned over" not in draw_by_label({"ids": numbers}, below={"ids": 30})


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (64, 64)])
def test_non_finite_inputs_have_nan_in_every_float(shape):
    x, ids = np.ones(shape, np.float16), np.array([1, 2])
    drawn = ProbeGenerator({"x": x, "ids": ids}, ProbeSettings()).draw_non_finite({"ids"})
    assert drawn is not None
    assert 1 <= np.isnan(drawn["x"]).sum() <= 1 + x.size / 16
    assert not np.isnan(x).any()
    assert drawn["ids"] is ids


def test_non_finite_inputs_are_skipped_where_nan_is_not_possible():
    nan = np.where(X > 1, np.float32(np.nan), X)
    for example in ({"ids": np.array([1, 2])}, {"x": nan}, {"x": X[:0]}):
        assert ProbeGenerator(example, ProbeSettings()).draw_non_finite({"ids"}) is None
    for settings in (ProbeSettings(0), ProbeSettings(domain={"x": (0, 1)})):
        assert ProbeGenerator({"x": X}, settings).draw_non_finite(()) is None


def test_extreme_integers_are_drawn_for_numbers_of_64_bits_only():
    example = {"count": np.array([1, 2]), "ids": np.array([3]), "x": np.int32([4])}
    drawn = ProbeGenerator(example, ProbeSettings()).draw_non_finite({"ids"})
    assert drawn is not None
    assert drawn["count"].min() >= 2**31
    assert (drawn["ids"] is example["ids"], drawn["x"] is example["x"]) == (True, True)
