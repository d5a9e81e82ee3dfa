"""Annotated masks in COCO's format, and their average precision beside COCO's own."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import enginebay as eb
import enginebay_vision as vision
from enginebay.environment import install_command
from enginebay_vision.metrics.registry import build_metric
from enginebay_vision.truth.annotated import Target
from enginebay_vision.truth.masks import AnnotatedMask

from .conftest import coco

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("cat", "dog", "cow")
DOG = {"image_id": 9, "category_id": 18, "bbox": [1, 2, 3, 4]}
#: The same pixels, columns 2 to 4 of rows 1 and 2 of an image of 20×10, in each of COCO's forms.
PIXELS = np.zeros((10, 20), np.uint8, order="F")
PIXELS[1:3, 2:5] = 1
RUNS = [21, 2, 8, 2, 8, 2, 157]
FORMS: dict[str, Any] = {
    "polygon": [[2, 1, 5, 1, 5, 3, 2, 3]],
    "two polygons": [[2, 1, 4, 1, 4, 3, 2, 3], [4, 1, 5, 1, 5, 3, 4, 3]],
    "run lengths": {"size": [10, 20], "counts": RUNS},
    "compressed": {"size": [10, 20], "counts": coco_masks.encode(PIXELS)["counts"].decode()},
}


def task(**fields: Any) -> vision.InstanceSegmentation:
    fields = {"image": vision.ImageInput(), "classes": NAMES, **fields}
    return vision.InstanceSegmentation(**fields)


def items(folder: Path, **fields: Any) -> list[Any]:
    return list(eb.DataSet(folder).for_task(task(**fields)))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_coco_becomes_the_same_mask(tmp_path: Path, form: str) -> None:
    crowd = {**DOG, "category_id": 17, "iscrowd": 1, "segmentation": FORMS["run lengths"]}
    coco(tmp_path, {**DOG, "segmentation": FORMS[form]}, crowd)
    first, second = items(tmp_path)
    assert (first.target.truth.corners.shape, first.target.truth.masks) == ((0, 4), [])
    truth = second.target.truth
    assert truth.corners.tolist() == [[1, 2, 4, 6]] * 2
    assert (truth.classes.tolist(), truth.ignored.tolist()) == ([1, 0], [False, True])
    assert [decoded(mask).tolist() for mask in truth.masks] == [PIXELS.tolist()] * 2


@settings(max_examples=100, deadline=None)
@given(
    width=st.integers(1, 70),
    height=st.integers(1, 70),
    share=st.floats(0, 1),
    seed=st.integers(0, 999),
)
def test_compressed_run_lengths_become_their_mask(
    width: int, height: int, share: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    pixels = np.asfortranarray(random.random((height, width)) < share, np.uint8)
    if seed % 2:  # long runs
        pixels[:, : width // 2] = 1
    counts = coco_masks.encode(pixels)["counts"].decode()
    raw = msgspec.Raw(json.dumps({"size": [height, width], "counts": counts}).encode())
    mask = AnnotatedMask("one", raw).encode((width, height))
    assert (decoded(mask) == pixels).all()


def decoded(mask: Any) -> Any:
    with warnings.catch_warnings():
        # pycocotools 2.0.11's arrays lack an argument that NumPy 2 passes.
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
        return coco_masks.decode(mask)


def test_images_without_annotations_have_no_targets(tmp_path: Path) -> None:
    Image.new("RGB", (20, 10)).save(tmp_path / "a.jpg")
    assert [item.target for item in items(tmp_path)] == [None]


def test_a_mask_is_of_the_image_that_its_exif_data_rotate(tmp_path: Path) -> None:
    coco(tmp_path, {**DOG, "segmentation": FORMS["compressed"]})
    exif = Image.Exif()
    exif[0x0112] = 8
    Image.new("RGB", (10, 20)).save(tmp_path / "val2017" / "b.jpg", exif=exif)
    _, item = items(tmp_path)
    assert item.target.size == (20, 10)
    exif[0x0112] = 1
    Image.new("RGB", (10, 20)).save(tmp_path / "val2017" / "b.jpg", exif=exif)
    with pytest.raises(eb.EnginebayError, match="a mask of 20x10 pixels, but its image has 10x20"):
        items(tmp_path)


BOXES_ONLY = "use the task object-detection if the annotations have boxes only"
SIZE = "'size' is height and width, of the image as rotated by its EXIF data"
NOT_A_MASK = "has run lengths that are not those of a mask of 20x10 pixels"
MISFITS: dict[str, tuple[Any, str, str | None]] = {
    "none": (None, "has no segmentation; the task expects a mask of each object", BOXES_ONLY),
    "empty": ([], "has no segmentation; the task expects a mask of each object", BOXES_ONLY),
    "text": (
        "polygon",
        (
            "has a segmentation that is neither polygons nor run lengths: Expected `object | array "
            "| null`, got `str`"
        ),
        None,
    ),
    "flat": (
        [1, 2, 3, 4, 5, 6],
        (
            "has a segmentation that is neither polygons nor run lengths: Expected `array`, got "
            "`int` - at `$[0]`"
        ),
        None,
    ),
    "two points": (
        [[1, 2, 3, 4]],
        "has a polygon of 4 numbers; expected x and y of 3 points or more",
        None,
    ),
    "no point": ([[]], "has a polygon of 0 numbers; expected x and y of 3 points or more", None),
    "odd": (
        [[1, 2, 3, 4, 5, 6, 7]],
        "has a polygon of 7 numbers; expected x and y of 3 points or more",
        None,
    ),
    "far away": (
        [[1, 2, 3, 4, 1e9, 6]],
        "has a point at 1e+09, 6, but its image has 20x10 pixels",
        None,
    ),
    "other size": (
        {"size": [20, 10], "counts": RUNS},
        "has a mask of 10x20 pixels, but its image has 20x10",
        SIZE,
    ),
    "no ASCII": ({"size": [10, 20], "counts": "öö"}, NOT_A_MASK, None),
}


@pytest.mark.parametrize("name", MISFITS)
def test_invalid_masks_are_refused(tmp_path: Path, name: str) -> None:
    segmentation, message, hint = MISFITS[name]
    coco(tmp_path, {**DOG, "id": 5, "segmentation": segmentation})
    with pytest.raises(eb.EnginebayError) as caught:
        items(tmp_path)
    path = tmp_path / "annotations" / "instances.json"
    assert str(caught.value).startswith(f"'{path}': annotation 5 {message}")
    assert caught.value.hint == hint


def test_a_missing_pycocotools_is_named_before_an_image_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coco(tmp_path, {**DOG, "segmentation": FORMS["polygon"]})
    monkeypatch.setitem(sys.modules, "pycocotools", None)
    with pytest.raises(eb.EnginebayError) as caught:
        eb.DataSet(tmp_path).for_task(task())
    assert str(caught.value).startswith(
        "annotated masks require pycocotools, which cannot be imported: "
    )
    assert caught.value.hint == install_command("enginebay-vision[masks]")
    # Boxes need no pycocotools, nor do images without annotations.
    boxes = vision.ObjectDetection(image=vision.ImageInput(), classes=NAMES)
    assert len(list(eb.DataSet(tmp_path).for_task(boxes))) == 2


def random_document(random: np.random.Generator) -> dict[str, Any]:
    """Return a COCO file of images of several sizes, with polygons and with crowds."""
    images, annotations = [], []
    for number in range(12):
        width, height = random.integers(9, 60, 2).tolist()
        images.append({"id": number, "file_name": f"{number}.png", "size": (width, height)})
        for _ in range(random.integers(0, 6)):
            low, far = random.uniform(0, 0.5, 2), random.uniform(0.6, 1, 2)
            x, y = np.array([low, [far[0], low[1]], far, [low[0], far[1]]]).T
            x, y = ((x * width).round(1), (y * height + random.normal(0, 1, 4)).round(1))
            segmentation: Any = [np.stack([x, y], 1).ravel().tolist()]
            crowd = int(random.random() < 0.2)
            if crowd:
                pixels = random.random((height, width)) < 0.9
                pixels[: int(y.min())], pixels[:, : int(x.min())] = False, False
                segmentation = coco_masks.encode(np.asfortranarray(pixels, np.uint8))
                segmentation["counts"] = segmentation["counts"].decode()
            box = [x.min(), y.min(), np.ptp(x), np.ptp(y)]
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": int(random.choice([3, 5, 8])),
                    "bbox": [float(value) for value in box],
                    "area": 1.0 + 40 * len(annotations),
                    "iscrowd": crowd,
                    "segmentation": segmentation,
                }
            )
    named = zip((3, 5, 8), NAMES, strict=True)
    categories = [{"id": number, "name": name} for number, name in named]
    return {"images": images, "categories": categories, "annotations": annotations}


def random_outputs(
    random: np.random.Generator, annotated: list[dict[str, Any]], size: tuple[int, int]
) -> dict[str, Any]:
    """Return boxes near the annotated ones with coarse masks, and others."""
    boxes = [entry["bbox"] for entry in annotated for _ in range(3)]
    boxes += [[*random.uniform(0, 9, 2), *random.uniform(0, 30, 2)] for _ in range(4)]
    corners = np.asarray(boxes) + random.normal(0, 1.5, (len(boxes), 4))
    corners[:, 2:] = corners[:, :2] + abs(corners[:, 2:])
    labels = [(3, 5, 8).index(entry["category_id"]) for entry in annotated for _ in range(3)]
    labels += random.integers(0, 3, 4).tolist()
    return {
        "boxes": corners[None],
        "scores": random.integers(1, 20, (1, len(boxes))) / 20,  # many are equal
        "labels": np.asarray(labels)[None],
        # Few pixels, so that overlaps are equal.
        "masks": random.random((1, len(boxes), 3, 3)) ** 0.2,
    }


def coco_precision(document: dict[str, Any], results: list[dict[str, Any]], kind: str) -> float:
    truth = COCO()
    truth.dataset = document
    truth.createIndex()
    evaluation = COCOeval(truth, truth.loadRes(results), kind)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats[0])


@pytest.mark.parametrize("seed", range(8))
def test_average_precision_equals_pycocotools(tmp_path: Path, seed: int) -> None:
    """On random objects with crowds, of several sizes and classes, with equal scores."""
    random = np.random.default_rng(seed)
    document = random_document(random)
    for image in document["images"]:
        size = image.pop("size")
        image |= {"width": size[0], "height": size[1]}
        Image.new("RGB", size).save(tmp_path / image["file_name"])
    (tmp_path / "instances.json").write_text(json.dumps(document))
    metrics = {"segm": build_metric("mask-map"), "bbox": build_metric("map")}
    results: dict[str, list[dict[str, Any]]] = {"segm": [], "bbox": []}
    for image, item in zip(document["images"], items(tmp_path), strict=True):
        target = item.target
        mine = [entry for entry in document["annotations"] if entry["image_id"] == image["id"]]
        outputs = random_outputs(random, mine, target.size)
        for metric in metrics.values():
            metric.update(outputs, target)
        found = target.postprocess_outputs(outputs)
        for row, pixels in zip(found, found.array, strict=True):
            result = {
                "image_id": image["id"],
                "category_id": (3, 5, 8)[row.index],
                "score": row.score,
            }
            box = [row.left, row.top, row.right - row.left, row.bottom - row.top]
            results["bbox"].append({**result, "bbox": box})
            mask = coco_masks.encode(np.asfortranarray(pixels, np.uint8))
            results["segm"].append({**result, "segmentation": mask})
    values = {kind: metric.compute() for kind, metric in metrics.items()}
    assert all(0.01 < value < 0.99 for value in values.values()), "a case without any contrast"
    for kind, value in values.items():
        assert value == pytest.approx(coco_precision(document, results[kind], kind), abs=1e-12)


def test_the_metric_of_masks_is_for_instance_segmentation() -> None:
    boxes = vision.ObjectDetection(image=vision.ImageInput())
    for metric, wanted in (
        ("mask-map", "instance-segmentation"),
        ("miou", "semantic-segmentation"),
    ):
        with pytest.raises(eb.EnginebayError) as caught:
            build_metric(metric).update({}, Target(boxes, (1, 1), None))
        assert str(caught.value) == (
            f"the metric is for {wanted}, but the artifact's task is object-detection"
        )
