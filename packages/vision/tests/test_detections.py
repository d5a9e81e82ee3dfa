"""Detections are matched in any order, and a wrong detection fails."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from enginebay.authors.arrays import Sample, assign
from enginebay.comparators import find_comparators
from enginebay.errors import UsageError
from enginebay.verification.sample_comparison import (
    check_comparators,
    compare_sample,
    find_blind_comparator,
)
from enginebay.verification.set_comparison import ToleranceOptions

COUNT = 12


def detections(count=COUNT, seed=0):
    """Boxes in an image of 640 pixels, their scores and labels."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 500, (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(20, 120, (count, 2))], 1)
    scores = rng.permutation(np.linspace(0.3, 0.95, count))
    return {
        "boxes": boxes.astype(np.float32),
        "scores": scores.astype(np.float32),
        "labels": rng.integers(0, 4, count),
    }


def select(outputs, order):
    return {name: values[order] for name, values in outputs.items()}


def shuffled(outputs, seed=1):
    return select(outputs, np.random.default_rng(seed).permutation(len(outputs["boxes"])))


def test_detections_in_another_order_match(compared):
    expected = detections()
    found = shuffled(expected)
    found["boxes"] = found["boxes"] + np.float32(1e-4)
    result = compared("detections", expected, found)
    assert result.passed
    assert (result.matching.matched, result.matching.expected_alone) == (COUNT, 0)
    assert result.outputs["boxes"].comparator == "detections"
    assert result.outputs["boxes"].max_abs_error == pytest.approx(1e-4, rel=0.5)
    assert result.outputs["scores"].total == COUNT


WRONG = {
    "a box is lost": lambda out, i: select(out, np.delete(np.arange(COUNT), i)),
    "a box is there twice": lambda out, i: select(out, [*range(COUNT), i]),
    "all boxes are moved by 3 pixels": lambda out, i: out | {"boxes": out["boxes"] + np.float32(3)},
    "a box is moved by 3 pixels": lambda out, i: out | {"boxes": add_at(out["boxes"], i, 3)},
    "a box is far away": lambda out, i: out | {"boxes": add_at(out["boxes"], i, 2000)},
    "a label is wrong": lambda out, i: out | {"labels": add_at(out["labels"], i, 1)},
    "a score is wrong": lambda out, i: out | {"scores": add_at(out["scores"], i, 0.01)},
    "a score is not a number": lambda out, i: out | {"scores": add_at(out["scores"], i, np.nan)},
    "a box is infinite": lambda out, i: out | {"boxes": add_at(out["boxes"], i, np.inf)},
    "two labels are exchanged": lambda out, i: (
        out | {"labels": (out["labels"] + (np.arange(COUNT) == i)) % 5}
    ),
}


def add_at(values, place, amount):
    values = values.copy()
    values[place] += amount
    return values


@pytest.mark.one_in(2)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_detection_fails_the_comparison(compared, wrong):
    """Whichever detection of four images is wrong."""
    for seed in range(4):
        expected = detections(seed=seed)
        for place in range(COUNT):
            found = wrong(shuffled(expected), place)
            assert not compared("detections:0.5", expected, found).passed


@pytest.mark.slow
def test_thousands_of_detections_are_compared(compared):
    """A model without suppression returns 8,400, too many for a matrix of all pairs."""
    expected = detections(8400)
    assert compared("detections", expected, shuffled(expected)).passed
    assert not compared("detections", expected, select(expected, slice(1, None))).passed


def test_the_message_names_the_unmatched_detection(compared):
    expected = detections()
    expected["boxes"][0] += 2000
    found = select(expected, slice(1, None))
    result = compared("detections:0.5", expected, found)
    assert result.outputs["boxes"].reason == "1 expected and 0 found boxes have no match"
    box = ", ".join(f"{value:.6g}" for value in expected["boxes"][0])
    assert result.matching.describe() == (
        "detections:0.5 of boxes, scores, labels: 11 matched, 1 expected and 0 found without "
        f"a match; worst in example: expected [0] at {box}, score {expected['scores'][0]:.4g}, "
        f"label {expected['labels'][0]} has no match, and no box overlaps it"
    )


def test_the_message_shows_the_nearest_detection_of_any_label(compared):
    expected = detections(1)
    found = expected | {"labels": expected["labels"] + 1}
    worst = compared("detections", expected, found).matching.worst
    assert "has no match; nearest is [0] at" in worst
    assert worst.endswith(f"label {expected['labels'][0] + 1}, overlap 1.000")


def test_a_detection_near_the_threshold_may_be_missing():
    """Only if another detection shows that the threshold is that near."""
    expected = detections()
    scores = expected["scores"]
    least, last = np.argsort(scores)[:2]
    near = expected | {"scores": scores.copy()}
    near["scores"][last] = scores[least] + 2e-5
    comparators = find_comparators({"boxes,scores,labels": "detections"})

    def passed(given, lost, others=()):
        found = select(given, np.delete(np.arange(COUNT), lost))
        every = [given, *others]
        result = compare_sample(given, found, ToleranceOptions(), comparators, all_expected=every)
        assert result.results[0].matched == COUNT - np.size(lost)
        return all(output.passed for output in result.outputs)

    assert passed(near, last)
    assert passed(near, least)
    assert not passed(near, [least, last]), "no detection is left to show the threshold"
    assert not passed(expected, least)
    assert not passed(expected, last)
    lower = expected | {"scores": scores - np.float32(0.01)}
    assert passed(near, last, [near])
    assert not passed(near, last, [lower]), "in another image the threshold is seen to be lower"


def test_at_most_half_near_the_threshold_may_be_missing(compared):
    expected = detections()
    expected["scores"][:6] = 0.3
    expected["scores"][6:] = 0.5
    assert compared("detections", expected, select(expected, slice(3, None))).passed
    assert not compared("detections", expected, select(expected, slice(4, None))).passed


def padded(outputs, rows, box=0.0, label=0):
    fill = {"boxes": box, "scores": 0, "labels": label}
    return {
        name: np.concatenate([values, np.full((rows, *values.shape[1:]), fill[name], values.dtype)])
        for name, values in outputs.items()
    }


@pytest.mark.parametrize(("box", "label"), [(0, 0), (0, -1), (77, 0), (-1, -1)])
def test_padding_rows_are_ignored(compared, box, label):
    """Padding may contain any boxes, and scores with a little noise."""
    expected = padded(detections(), 8, 0, label)
    found = shuffled(padded(detections(), 8, box, label))
    found["scores"][found["scores"] == 0] = 1e-6
    result = compared("detections", expected, found)
    assert result.passed
    assert result.matching.matched == COUNT


def test_images_of_a_batch_are_matched_separately(compared):
    images = [detections(seed=seed) for seed in range(3)]

    def stacked(*order):
        return {name: np.stack([shuffled(images[i])[name] for i in order]) for name in images[0]}

    expected = {name: np.stack([image[name] for image in images]) for name in images[0]}
    assert compared("detections", expected, stacked(0, 1, 2)).passed
    assert not compared("detections", expected, stacked(1, 0, 2)).passed
    fewer = {name: values[:2] for name, values in expected.items()}
    result = compared("detections", expected, fewer)
    assert result.outputs["boxes"].reason == (
        "the shape of 'boxes' differs: expected (3, 12, 4), found (2, 12, 4)"
    )


def test_rows_of_boxes_scores_and_labels_are_matched(compared):
    out = detections()
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [out["boxes"], out["scores"][:, None], out["labels"][:, None], rng.normal(size=(12, 2))], 1
    ).astype(np.float32)
    expected = {"rows": rows[None]}
    order = rng.permutation(COUNT)
    assert compared("detections", expected, {"rows": rows[None, order]}).passed
    for column in range(8):
        found = rows[None, order].copy()
        found[0, 3, column] += 0.01 if column in (4, 6, 7) else 3
        result = compared("detections", expected, {"rows": found})
        assert not result.passed, column
    assert result.outputs["rows"].worst_index == (0, order[3], 7)


def test_scores_in_the_fifth_column_are_recognised(compared):
    out = detections()
    rows = np.concatenate([out["boxes"], out["scores"][:, None]], 1)
    expected = {"dets": rows, "labels": out["labels"]}
    order = np.random.default_rng(0).permutation(COUNT)
    found = select(expected, order)
    assert compared("detections", expected, found).passed
    assert not compared("detections", expected, found | {"labels": found["labels"] + 1}).passed
    assert not compared("detections", expected, found | {"dets": found["dets"] * 1.01}).passed


def segmented(kind=bool):
    """Detections with a mask of 24×32 pixels each: rectangles, or numbers from 0 to 1."""
    numbers = np.random.default_rng(0).random((COUNT, 24, 32)).astype(np.float32)
    corner = np.random.default_rng(0).integers(0, 16, (2, COUNT, 1, 1))
    rows, columns = np.indices((24, 32))[:, None] - corner
    inside = (rows >= 0) & (rows < 9) & (columns >= 0) & (columns < 14)
    return detections() | {"masks": numbers if kind is float else inside}


@pytest.mark.parametrize("kind", [bool, float])
def test_masks_belong_to_their_rows(compared, kind):
    expected = segmented(kind)
    found = shuffled(expected)
    assert compared("detections", expected, found).passed
    exchanged = found["masks"].copy()
    exchanged[[0, 1]] = exchanged[[1, 0]]
    result = compared("detections", expected, found | {"masks": exchanged})
    assert not result.passed
    assert not compared("detections", expected, found | {"masks": found["masks"][:, :9]}).passed
    assert not compared("detections", expected, found | {"masks": found["masks"][:9]}).passed
    batch = {name: values[None] for name, values in expected.items()}
    assert compared("detections", batch, {n: v[None] for n, v in found.items()}).passed


def test_rounding_may_change_a_pixel_of_masks(compared):
    expected = segmented()
    found = shuffled(expected)
    found["masks"] = found["masks"].copy()
    found["masks"][0, 0, 0] ^= True
    assert compared("detections", expected, found).passed
    found["masks"][0, 0, 1] ^= True
    result = compared("detections", expected, found)
    assert result.outputs["boxes"].reason == (
        "2 of the 1514 pixels that masks in 'masks' cover differ"
    )
    found["masks"][0] = False
    assert compared("detections", expected, found).outputs["boxes"].reason == (
        "1 of 12 pairs of masks in 'masks' do not overlap enough"
    )


def test_the_numbers_of_masks_are_compared_within_the_tolerance(compared):
    expected = segmented(float)
    found = shuffled(expected)
    assert compared("detections", expected, found | {"masks": found["masks"] + 1e-6}).passed
    found["masks"] = add_at(found["masks"], (3, 5, 7), 0.01)
    result = compared("detections", expected, found)
    assert not result.passed
    assert result.outputs["masks"].mismatched_count == 1
    assert result.outputs["masks"].worst_index[1:] == (5, 7)


def test_two_boxes_in_one_place_are_told_apart_by_their_masks(compared):
    expected = select(segmented(), [0, 0])
    expected["masks"] = np.stack([expected["masks"][0], ~expected["masks"][0]])
    assert compared("detections", expected, select(expected, [1, 0])).passed


def test_the_dtype_distinguishes_labels_from_scores(compared):
    expected = detections()
    turned = {name: expected[name] for name in ("boxes", "labels", "scores")}
    found = shuffled(turned)
    assert compared("detections", turned, found).passed
    assert not compared("detections", turned, found | {"labels": found["labels"] + 1}).passed


def test_boxes_without_area_are_compared_within_the_tolerance(compared):
    expected = {"boxes": np.float32([[1, 1, 1, 1], [0, 0, 9, 9]])}
    assert compared("detections", expected, select(expected, [1, 0])).passed
    moved = {"boxes": np.float32([[0, 0, 9, 9], [2, 2, 2, 2]])}
    assert not compared("detections", expected, moved).passed


def test_int8_boxes_are_judged_by_their_overlap(compared):
    """The tolerance of int8 would be a quarter of the image."""
    expected = {"boxes": np.float32([[100, 100, 140, 140], [300, 300, 400, 400]])}
    found = {"boxes": expected["boxes"] + np.float32(20)}
    assert compared("detections:0.1", expected, found, "int8").passed
    assert not compared("detections:0.9", expected, found, "int8").passed


@given(seed=st.integers(0, 1000), noise=st.floats(0, 1e-3))
def test_assignment_matches_all_duplicates_and_neighbours(seed, noise):
    rng = np.random.default_rng(seed)
    left = rng.choice(np.linspace(0, 1, 9), (9, 1))
    right = rng.permutation(left) + noise
    near = np.abs(left - right.T) <= 0.13
    pairs = np.argwhere(near)
    partner = assign(pairs, rng.random(len(pairs)), 9, 9)
    assert (partner >= 0).all(), "as many partners as can be"
    assert sorted(partner) == list(range(9))
    assert near[np.arange(9), partner].all()


BAD = {
    "the comparator 'detections' expects boxes": {"x": np.zeros((3, 7, 2, 4), np.float32)},
    "; found 'x' int64 (5, 4)": {"x": np.zeros((5, 4), np.int64)},
    "; found 'x' float32 (5, 4), 'y' float32 (4,)": {
        "x": np.zeros((5, 4), np.float32),
        "y": np.zeros(4, np.float32),
    },
    "each row of 'x' has x2 < x1 or y2 < y1, as in [0] at 5, 5, 2, 2": {
        "x": np.float32([[5, 5, 2, 2]])
    },
    "'detections' expects scores from 0 to 1 in 's', or -1 for padding rows; found -3": {
        "x": np.float32([[0, 0, 2, 2]]),
        "s": np.float32([-3]),
    },
}


@pytest.mark.parametrize("message", BAD)
def test_invalid_detections_are_refused(message):
    outputs = BAD[message]
    comparators = find_comparators({tuple(outputs): "detections"})
    with pytest.raises(UsageError) as caught:
        check_comparators(comparators, [Sample({}, outputs)])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_samples_without_detections_are_reported():
    empty = [Sample({}, {"x": np.zeros((0, 4), np.float32)})] * 2
    assert doubt(empty[:1]) == "detections of x finds nothing to match in the example"
    assert doubt(empty) == "detections of x finds nothing to match in any of 2 samples"


def doubt(samples):
    comparators = find_comparators({"x": "detections"})
    compared = [
        compare_sample(sample.outputs, sample.outputs, ToleranceOptions(), comparators)
        for sample in samples
    ]
    return find_blind_comparator(comparators, samples, compared)


@pytest.mark.parametrize("argument", ["0", "1.1", "nan", "half"])
def test_an_invalid_overlap_is_refused(argument):
    message = f"^invalid threshold in 'detections:{argument}'; expected an intersection over union"
    with pytest.raises(UsageError, match=message):
        find_comparators({"x": f"detections:{argument}"})
