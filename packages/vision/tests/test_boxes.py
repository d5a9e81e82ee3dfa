"""Boxes: suppression, folders of COCO and VOC, average precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

import enginebay as eb
import enginebay_vision as vision
from enginebay.authors.sources import read_task
from enginebay_vision.metrics.registry import build_metric
from enginebay_vision.truth.annotated import Target
from enginebay_vision.truth.boxes import TrueBoxes

from .conftest import coco, recorded

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("cat", "dog", "cow")


def task(**fields: Any) -> vision.ObjectDetection:
    fields = {"image": vision.ImageInput(), "classes": NAMES, **fields}
    return vision.ObjectDetection(**fields)


def iou(first: Any, second: Any) -> float:
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(0, width) * max(0, height)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return float(shared / (sum(areas) - shared)) if shared else 0.0


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(0, 30),
    per_class=st.booleans(),
    least=st.floats(0, 1),
    most=st.integers(1, 12),
    seed=st.integers(0, 999),
)
def test_suppression_matches_its_definition(
    count: int, per_class: bool, least: float, most: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 20, (count, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0, 20, (count, 2))], axis=1)
    scores, labels = random.permutation(count) / 30, random.integers(0, 3, count)
    kept: list[int] = []
    for place in np.argsort(-scores):
        rivals = [k for k in kept if not per_class or labels[k] == labels[place]]
        if len(kept) < most and all(iou(boxes[k], boxes[place]) <= least for k in rivals):
            kept.append(int(place))
    nms = vision.Suppression(iou=least, per_class=per_class, most=most)
    found = task(nms=nms, threshold=0).postprocess(
        {"boxes": boxes[None], "scores": scores[None], "labels": labels[None]}, (40, 40)
    )
    assert [box.score for box in found] == scores[kept].tolist()
    assert [box.index for box in found] == labels[kept].tolist()


def test_every_class_reports_several_classes_for_a_box() -> None:
    outputs = {
        "boxes": np.array([[[0, 0, 4, 4], [5, 5, 9, 9]]]),
        "scores": np.array([[[0.9, 0.1, 0.6, 0], [0.2, 0.7, 0.1, 0]]]),
    }
    several = task(labels="", every_class=True).postprocess(outputs, (10, 10))
    assert [(box.name, box.left, box.score) for box in several] == [
        ("cat", 0, 0.9),
        ("dog", 5, 0.7),
        ("cow", 0, 0.6),
    ]
    best = task(labels="").postprocess(outputs, (10, 10))
    assert [(box.name, box.left) for box in best] == [("cat", 0), ("dog", 5)]
    with pytest.raises(eb.EnginebayError, match="'every_class' cannot be combined with 'labels'"):
        task(every_class=True)


def test_suppression_is_recorded_and_validated() -> None:
    record = recorded(task(nms=vision.Suppression(iou=0.6)))
    assert record["nms"] == {"iou": 0.6, "per_class": True, "most": 100}
    assert read_task(record) == task(nms=vision.Suppression(iou=0.6))
    assert recorded(task())["nms"] is None
    for wrong, message in (
        ({"iou": 2}, "the task: nms: 'iou' is 2; expected a number from 0 to 1"),
        ({"most": 0}, "the task: nms: 'most' is 0; expected a whole number above 0"),
        ({"iuo": 1}, "the task: Object contains unknown field `iuo` - at `$.nms`"),
    ):
        with pytest.raises(eb.EnginebayError) as caught:
            read_task({**record, "nms": wrong})
        assert str(caught.value).startswith(message)


DOG = {"image_id": 9, "category_id": 18, "bbox": [1, 2, 3, 4]}


def test_a_coco_file_becomes_boxes_and_classes(tmp_path: Path) -> None:
    coco(tmp_path, DOG, {**DOG, "category_id": 17, "iscrowd": 1})
    first, second = eb.DataSet(tmp_path).for_task(task())
    assert first.target.truth.corners.shape == (0, 4)
    assert second.target.size == (20, 10)
    assert second.target.truth.corners.tolist() == [[1, 2, 4, 6]] * 2
    assert second.target.truth.classes.tolist() == [1, 0]
    assert second.target.truth.ignored.tolist() == [False, True]
    assert second.target.task.threshold == 0.001
    # Without names, or if all names are unknown, the order of the category ids counts.
    for names in ((), ("chat", "chien")):
        _, item = eb.DataSet(tmp_path).for_task(task(classes=names))
        assert item.target.truth.classes.tolist() == [1, 0]


def test_unused_coco_categories_may_be_unknown(tmp_path: Path) -> None:
    listed = [{"id": 0, "name": "animals"}, {"id": 18, "name": "dog"}]
    coco(tmp_path, DOG, categories=listed)
    _, item = eb.DataSet(tmp_path).for_task(task())
    assert item.target.truth.classes.tolist() == [1]


MISFITS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {},
        {"images": None},
        ("'{0}' is not a COCO annotation file: Object missing required field `images`"),
    ),
    (
        {"bbox": [1, 2, 3]},
        {},
        (
            "'{0}' is not a COCO annotation file: Expected `array` of length 4 - "
            "at `$.annotations[0].bbox`"
        ),
    ),
    (
        {"bbox": [1, 2, -3, 5]},
        {},
        "'{0}' has a box with a negative size, -3x5 pixels, in the annotation with id 1",
    ),
    ({}, {"images": []}, "'{0}' lists no images"),
    ({"image_id": 3}, {}, "'{0}' has an annotation of image 3, but does not list the image"),
    (
        {"category_id": 3},
        {},
        "'{0}' has an annotation of category 3, but does not list the category",
    ),
    (
        {},
        {"images": [{"id": 9, "file_name": "c.jpg"}]},
        "'{0}' lists the image 'c.jpg', which is not in '{1}'",
    ),
    (
        {},
        {"categories": [{"id": 18, "name": "horse"}, {"id": 17, "name": "cat"}]},
        "'{0}' has a category 'horse', which is not one of the task's 3 classes",
    ),
]


@pytest.mark.parametrize(("change", "changes", "message"), MISFITS)
def test_invalid_coco_files_are_refused(
    tmp_path: Path, change: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    coco(tmp_path, {**DOG, **change}, **changes)
    with pytest.raises(eb.EnginebayError) as caught:
        eb.DataSet(tmp_path).for_task(task())
    path = tmp_path / "annotations" / "instances.json"
    assert str(caught.value) == message.format(path, tmp_path)


def test_several_coco_files_are_refused(tmp_path: Path) -> None:
    coco(tmp_path, DOG)
    (tmp_path / "other.json").write_text("{")
    with pytest.raises(eb.EnginebayError, match=r"contains 2 \.json files; expected a single") as c:
        eb.DataSet(tmp_path).for_task(task())
    assert c.value.hint == "remove all but one of annotations/instances.json, other.json"
    (tmp_path / "annotations" / "instances.json").unlink()
    with pytest.raises(eb.EnginebayError, match="is not a COCO annotation file: Input"):
        eb.DataSet(tmp_path).for_task(task())


XML = """<annotation><object><name>{0}</name><difficult>1</difficult>
<bndbox><xmin>3</xmin><ymin>1</ymin><xmax>6</xmax><ymax>4</ymax></bndbox></object></annotation>"""


def voc(path: Path, text: str) -> Path:
    for name in ("JPEGImages", "Annotations"):
        (path / name).mkdir()
    Image.new("RGB", (20, 10)).save(path / "JPEGImages" / "a.jpg")
    (path / "Annotations" / "a.xml").write_text(text)
    return path


def test_a_voc_folder_becomes_boxes_and_classes(tmp_path: Path) -> None:
    (item,) = eb.DataSet(voc(tmp_path, XML.format("dog"))).for_task(task())
    assert item.target.truth.corners.tolist() == [[2, 0, 6, 4]]
    assert item.target.truth.classes.tolist() == [1]
    assert item.target.truth.ignored.tolist() == [True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<annotation>", "'{0}/Annotations/a.xml' is not a VOC annotation file: no element f"),
        (
            XML.format("dog").replace("xmin", "left"),
            "'{0}/Annotations/a.xml' is not a VOC annotation file: could not convert string",
        ),
        (XML.format("dgo"), "'{0}' has a category 'dgo', which is not one of the task's 3 classes"),
    ],
)
def test_invalid_voc_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        eb.DataSet(voc(tmp_path, text)).for_task(task())
    assert str(caught.value).startswith(message.format(tmp_path))


def test_images_without_annotations_have_no_targets(tmp_path: Path) -> None:
    Image.new("RGB", (20, 10)).save(tmp_path / "a.jpg")
    assert [item.target for item in eb.DataSet(tmp_path).for_task(task())] == [None]


def precision(*images: tuple[list[list[float]], list[list[float]]]) -> float:
    """Return the mAP of boxes ``edges, class, score`` for true ``edges, class, crowd``."""
    metric = build_metric("map")
    for found, true in images:
        boxes, rows = np.asarray(found).reshape(-1, 6), np.asarray(true).reshape(-1, 6)
        truth = TrueBoxes(rows[:, :4], rows[:, 4].astype(np.int64), rows[:, 5] > 0)
        outputs = {"boxes": boxes[:, :4], "labels": boxes[:, 4], "scores": boxes[:, 5]}
        metric.update(outputs, Target(task(threshold=0), (999, 999), truth))
    return metric.compute()


def test_average_precision_matches_known_values() -> None:
    true = [[0, 0, 10, 10, 0, 0], [20, 20, 40, 40, 1, 0]]
    assert precision(([[*box[:5], 0.9] for box in true], true)) == pytest.approx(1)
    assert precision(([], true)) == 0
    half = [[0, 0, 10, 7, 0, 0.9]]  # 0.7 of the first: 5 of 10 thresholds; the second is not found
    assert precision((half, true)) == pytest.approx(0.25)
    wrong_first = [[50, 50, 60, 60, 0, 0.95], [*true[0][:5], 0.9], [*true[1][:5], 0.5]]
    assert precision((wrong_first, true)) == pytest.approx(0.75)
    twice = [[*true[0][:5], 0.9], [*true[0][:5], 0.8], [*true[1][:5], 0.5]]
    assert precision((twice, true)) == pytest.approx(1)


def test_crowds_do_not_change_average_precision() -> None:
    true = [[0, 0, 10, 10, 0, 0], [20, 20, 60, 60, 0, 1]]
    inside = [[20 + n, 20, 30 + n, 30, 0, 0.95] for n in range(3)]
    assert precision(([*inside, [0, 0, 10, 10, 0, 0.9]], true)) == pytest.approx(1)
    assert np.isnan(precision((inside, true[1:])))


def test_of_equally_similar_objects_the_last_is_matched_as_in_pycocotools() -> None:
    """The second box is found only if the first one has not taken its object."""
    true = [[0, 0, 10, 10, 0, 0], [4, 0, 14, 10, 0, 0]]
    first, second = [2, 0, 12, 10, 0, 0.9], [*true[0][:5], 0.8]  # 2/3 of both; all of the first
    # Up to 0.65 both are found. From 0.7 on the second alone: half of the recalls, precision 1/2.
    wanted = (4 + 6 * 0.5 * 51 / 101) / 10
    assert precision(([first, second], true)) == pytest.approx(wanted)


def test_scores_may_follow_the_boxes_in_one_output() -> None:
    rows = np.array([[[0, 0, 4, 4, 0.9, 0.6], [5, 5, 9, 9, 0.2, 0.7]]])
    image = eb.TensorSpec("x", "float32", (1, 3, "h", "w"))

    def fitted(output: str, *sizes: int | str, **fields: Any) -> vision.ObjectDetection:
        found = eb.TensorSpec(output, "float32", (1, *sizes))
        labels = eb.TensorSpec("labels", "int64", (1, "n"))
        fields = {"boxes": "", "scores": "", "classes": NAMES[:2], **fields}
        return task(**fields).fit((image,), (found, labels))

    of_each = fitted("output", "n", 6, labels="", every_class=True)
    found = of_each.postprocess({"output": rows}, (10, 10))
    assert [(box.name, box.left) for box in found] == [("cat", 0), ("dog", 5), ("dog", 0)]
    columns = fitted("output", 6, 8400, labels="", columns=True, every_class=True)
    assert columns.postprocess({"output": rows.swapaxes(1, 2)}, (10, 10)) == found
    assert (
        Target(columns, (10, 10), ()).postprocess_outputs(rows.swapaxes(1, 2)) == found
    )  # its only output
    labelled = fitted("dets", "n", 5).postprocess(
        {"dets": rows[..., :5], "labels": np.array([[1, -1]])}, (10, 10)
    )
    assert [(box.name, box.score) for box in labelled] == [("dog", 0.9)]
    with pytest.raises(eb.EnginebayError, match=r"'output' has the shape .*; expected four"):
        of_each.postprocess({"output": rows[..., :4]}, (10, 10))
    for columns, labels in ((6, "labels"), (4, "")):
        with pytest.raises(eb.EnginebayError) as caught:
            fitted("dets", "n", columns, labels=labels)
        assert str(caught.value) == (
            "the task expects four numbers for each box, followed by scores, but the output is "
            f"dets float32[1, n, {columns}]"
        )
    for sizes, form in ((("n", 6), False), ((6, "n"), True)):
        with pytest.raises(eb.EnginebayError, match="the task has 3 classes, but the output is"):
            fitted("dets", *sizes, labels="", classes=NAMES, columns=form)
    with pytest.raises(eb.EnginebayError, match="'columns' and 'scores' cannot be combined"):
        task(columns=True)


def test_boxes_are_suppressed_before_clipping() -> None:
    """Both boxes have the same part inside the image; models suppress whole boxes."""
    outputs = {
        "boxes": np.array([[[-90, 0, 10, 10], [0, 0, 10, 10]]]),
        "scores": np.array([[0.9, 0.8]]),
        "labels": np.array([[0, 0]]),
    }
    found = task(nms=vision.Suppression()).postprocess(outputs, (20, 20))
    assert [(box.score, box.left, box.right) for box in found] == [(0.9, 0, 10), (0.8, 0, 10)]
