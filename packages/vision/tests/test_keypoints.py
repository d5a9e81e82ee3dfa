"""Keypoints: peaks of heatmaps, bodies of COCO files, average precision by OKS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

import enginebay as eb
import enginebay_vision as vision
from enginebay_vision.keypoints import TruePoints
from enginebay_vision.metrics.registry import build_metric
from enginebay_vision.truth.annotated import Target

from .conftest import coco

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("head", "hand")


def task(**fields: Any) -> vision.KeypointDetection:
    image = vision.ImageInput(steps=(vision.Resize(16, 12),))
    return vision.KeypointDetection(**{"image": image, "output": "y", "classes": NAMES, **fields})


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 9999), height=st.integers(1, 5), width=st.integers(1, 5))
def test_peaks_move_a_quarter_towards_the_higher_neighbour(
    seed: int, height: int, width: int
) -> None:
    maps = np.random.default_rng(seed).permutation(2 * height * width).astype(np.float32)
    maps = maps.reshape(1, 2, height, width)
    for heat, point in zip(maps[0], task().postprocess({"y": maps}, (24, 16)), strict=True):
        y, x = (int(places[0]) for places in np.nonzero(heat == heat.max()))
        x_at, y_at = float(x), float(y)
        if 0 < x < width - 1:
            x_at += 0.25 if heat[y, x + 1] > heat[y, x - 1] else -0.25
        if 0 < y < height - 1:
            y_at += 0.25 if heat[y + 1, x] > heat[y - 1, x] else -0.25
        assert point.score == heat.max()
        assert (point.x, point.y) == pytest.approx((x_at * 24 / width, y_at * 16 / height))


def test_keypoints_are_mapped_back_to_the_image() -> None:
    """20×10 becomes 16×8 at 4 from the top; a map's entry is 4 of these pixels wide."""
    steps = (vision.Resize(16, 16, fit="contain"), vision.Crop(16, 16))
    maps = np.zeros((1, 2, 4, 4))
    maps[0, 0, 0, 3], maps[0, 1, 3, 0] = 0.75, 0.25
    fitting = task(image=vision.ImageInput(steps=steps), skeleton=((0, 1),))
    found = fitting.postprocess({"y": maps}, (20, 10))
    assert found == [
        vision.Keypoint("head", 0, 0.75, 15.0, -5.0),
        vision.Keypoint("hand", 1, 0.25, 0.0, 10.0),
    ]


def simcc(**fields: Any) -> vision.KeypointDetection:
    return task(output="a", output_y="b", **fields)


def test_points_of_simcc_are_where_each_axis_has_its_largest_score() -> None:
    """The input is 12 wide and 16 high: half a pixel for each place."""
    a, b = np.zeros((1, 2, 24)), np.zeros((1, 2, 32))
    a[0, 0, 7], b[0, 0, 31] = 0.9, 0.5
    a[0, 1, 23], b[0, 1, 0] = 0.25, 0.75
    assert simcc().postprocess({"a": a, "b": b}, (24, 16)) == [
        vision.Keypoint("head", 0, 0.5, 7.0, 15.5),
        vision.Keypoint("hand", 1, 0.25, 23.0, 0.0),
    ]


def test_outputs_that_do_not_fit_simcc_are_refused() -> None:
    image = (eb.TensorSpec("x", "float32", (1, 3, 16, 12)),)
    first = eb.TensorSpec("a", "float32", (1, 2, 24))
    assert simcc().fit(image, [first, eb.TensorSpec("b", "float32", (1, 2, "n"))]).output == "a"
    for second, message in (
        (("c", (1, 2, 32)), "unknown output 'b' in the task; available: a, c"),
        (("b", (1, 2, 8, 8)), "the task expects scores of places, NxKxp, but the output is b"),
        (("b", (1, 3, 32)), "the task has 2 classes, but the output is b float32[1, 3, 32]"),
    ):
        with pytest.raises(eb.EnginebayError) as caught:
            simcc().fit(image, [first, eb.TensorSpec(second[0], "float32", second[1])])
        assert str(caught.value).startswith(message)
    for shape, message in (
        ((1, 3, 8), "output 'b' has 3 rows of scores, but the task has 2 points"),
        ((1, 8), "output 'b' has the shape (8,) for one image; expected K×places"),
    ):
        with pytest.raises(eb.EnginebayError) as caught:
            simcc().postprocess({"a": np.zeros((1, 2, 8)), "b": np.zeros(shape)}, (9, 9))
        assert str(caught.value) == message


def test_lines_are_drawn_between_confident_keypoints_only(tmp_path: Path) -> None:
    points = [vision.Keypoint("", 0, 0.9, 50, 50), vision.Keypoint("", 1, 0.9, 90, 50)]
    fitting = task(skeleton=((0, 1),))
    fitting.draw(Image.new("RGB", (100, 100)), points, tmp_path / "a.png")
    unsure = vision.Keypoint("", 1, 0.2, 90, 50)
    fitting.draw(Image.new("RGB", (100, 100)), [points[0], unsure], tmp_path / "b.png")
    with Image.open(tmp_path / "a.png") as sure, Image.open(tmp_path / "b.png") as other:
        for drawn, line in ((np.asarray(sure), True), (np.asarray(other), False)):
            assert drawn[50, 50].any()
            assert drawn[50, 70].any() == line


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"skeleton": ((0, 2),)},
            "'skeleton' is invalid; expected point indices from 0 to 1",
        ),
        ({"sigmas": (0.1,)}, "'sigmas' has 1 numbers, but 'classes' has 2 names"),
        ({"sigmas": (0.1, 0)}, "'sigmas' or 'padding' is invalid; expected numbers above 0"),
        ({"padding": 0}, "'sigmas' or 'padding' is invalid; expected numbers above 0"),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        task(**fields)
    assert str(caught.value) == message


def test_outputs_that_do_not_fit_the_task_are_refused() -> None:
    image = (eb.TensorSpec("x", "float32", (1, 3, 16, 12)),)
    for dims, message in (
        ((1, 2, 4), "the task expects heatmaps, NxKxhxw, but the output is y float32[1, 2, 4]"),
        ((1, 3, 4, 4), "the task has 2 classes, but the output is y float32[1, 3, 4, 4]"),
    ):
        with pytest.raises(eb.EnginebayError) as caught:
            task().fit(image, [eb.TensorSpec("y", "float32", dims)])
        assert str(caught.value) == message
    with pytest.raises(eb.EnginebayError, match="output 'y' has 3 heatmaps, but the task has 2"):
        task().postprocess({"y": np.zeros((1, 3, 4, 4))}, (9, 9))


BODY = {"image_id": 9, "category_id": 18, "bbox": [4, 2, 6, 4], "area": 20}


def test_bodies_are_cropped_from_coco_images(tmp_path: Path) -> None:
    seen = {**BODY, "keypoints": [5, 3, 2, 0, 0, 0]}
    unseen = {**BODY, "keypoints": [0, 0, 0, 0, 0, 0]}
    coco(tmp_path, seen, unseen, {**seen, "iscrowd": 1})
    pixels = np.zeros((10, 20, 3), np.uint8)
    pixels[3, 5] = 255
    Image.fromarray(pixels).save(tmp_path / "val2017" / "b.png")
    (tmp_path / "val2017" / "b.png").rename(tmp_path / "val2017" / "b.jpg")
    plain = task(image=vision.ImageInput(input="x"))
    (item,) = eb.DataSet(tmp_path).for_task(plain)
    # A box of 6×4 around (7, 4), a quarter larger: from 3.25 to 10.75, and from 1.5 to 6.5.
    assert item.target.size == (8, 4)
    assert item.target.truth.points.tolist() == [[2, 1, 2], [-3, -2, 0]]
    assert np.argwhere(item.inputs["x"][0, 0] == 1).tolist() == [[1, 2]]
    (item,) = eb.DataSet(tmp_path).for_task(task())  # 12 wide and 16 high
    assert (item.target.size, item.target.truth.area) == ((8, 10), 20)


def test_a_missing_area_is_computed_from_the_box(tmp_path: Path) -> None:
    coco(tmp_path, {**BODY, "area": 0, "keypoints": [5, 3, 2, 0, 0, 0]})
    (item,) = eb.DataSet(tmp_path).for_task(task())
    assert item.target.truth.area == 24


def test_a_wrong_number_of_points_is_refused(tmp_path: Path) -> None:
    coco(tmp_path, {**BODY, "id": 5, "keypoints": [5, 3, 2] * 3})
    with pytest.raises(eb.EnginebayError) as caught:
        eb.DataSet(tmp_path).for_task(task())
    assert str(caught.value) == (
        f"'{tmp_path}/annotations/instances.json': annotation 5 has 3 points, but "
        "the task has 2 points"
    )


def precision(fitting: vision.KeypointDetection, *bodies: tuple[Any, Any, float]) -> float:
    metric = build_metric("oks-ap")
    for places, true, score in bodies:
        maps = np.zeros((1, len(places), 64, 64))
        maps[0, np.arange(len(places)), [y for _, y in places], [x for x, _ in places]] = score
        truth = TruePoints(np.asarray(true, np.float64), 400.0)
        metric.update(maps, Target(fitting, (64, 64), truth))
    return metric.compute()


def test_oks_average_precision_matches_known_values() -> None:
    plain = vision.ImageInput(steps=(vision.Resize(64, 64),))
    two = task(image=plain, sigmas=(0.05, 0.1))
    # OKS of one point: exp(-9 / (2 · 400 · 0.1²)) = 0.325; of the other, 1: 0.66 in the mean.
    near = ([(13, 20), (30, 30)], [[10, 20, 2], [30, 30, 1]], 0.5)
    assert precision(two, near) == pytest.approx(0.4)
    hidden = ([(13, 20), (30, 30)], [[10, 20, 0], [30, 30, 1]], 0.5)
    assert precision(two, hidden) == pytest.approx(1)
    far = ([(50, 50), (60, 60)], [[10, 20, 2], [30, 30, 1]], 0.9)
    # The worse body has the higher score: a precision of 1/2 up to a recall of 1/2.
    assert precision(two, hidden, far) == pytest.approx(0.5 * 51 / 101)
    with pytest.raises(eb.EnginebayError) as caught:
        precision(task(image=plain), near)
    assert str(caught.value) == "the metric requires the task's 'sigmas' for 2 points"
    assert caught.value.hint == "add 'sigmas' to the task, one number for each point"
    body = task(image=plain, classes=())
    points = [(n, n) for n in range(10, 27)]
    assert precision(body, (points, [[x, y, 2] for x, y in points], 1)) == pytest.approx(1)
