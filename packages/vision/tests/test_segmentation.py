"""Segmentation: masks at the image's size, folders of masks, mIoU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

import enginebay as eb
import enginebay_vision as vision
from enginebay_vision.metrics.registry import build_metric

if TYPE_CHECKING:
    from pathlib import Path

LETTERBOX = vision.ImageInput(steps=(vision.Resize(8, 8, fit="contain"), vision.Crop(8, 8)))
NAMES = ("road", "sky", "tree")


def task(**fields: Any) -> vision.SemanticSegmentation:
    image = fields.pop("image", vision.ImageInput(steps=(vision.Resize(8, 8),)))
    return vision.SemanticSegmentation(image=image, output="y", **fields)


@settings(max_examples=25, deadline=None)
@given(
    width=st.integers(1, 40),
    height=st.integers(1, 40),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 99),
)
def test_masks_match_torchs_interpolation(
    width: int, height: int, shape: tuple[int, int, int], seed: int
) -> None:
    import torch

    scores = np.random.default_rng(seed).normal(size=(1, *shape)).astype(np.float32)
    found = task().postprocess({"y": scores}, (width, height)).array
    wanted = torch.nn.functional.interpolate(
        torch.from_numpy(scores), size=(height, width), mode="bilinear", align_corners=False
    )[0].numpy()
    assert found.shape == (height, width)
    won = np.take_along_axis(wanted, found[None].astype(int), 0)[0]
    assert (won >= wanted.max(0) - 1e-5).all()


def test_masks_computed_in_bands_of_rows_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).normal(size=(1, 3, 8, 8))
    whole = task().postprocess({"y": scores}, (21, 17)).array
    monkeypatch.setattr("enginebay_vision.maps._MAX_VALUES_AT_ONCE", 3 * 21 * 5)
    assert (task().postprocess({"y": scores}, (21, 17)).array == whole).all()


def test_masks_are_mapped_back_to_the_image() -> None:
    """16×8 becomes 8×4 at 2 from the top: the rows above and below are padding."""
    classes = np.full((1, 8, 8), 2)
    classes[:, 2:6, :4], classes[:, 2:6, 4:] = 0, 1
    fitting = task(image=LETTERBOX, form="classes", classes=NAMES)
    found = fitting.postprocess({"y": classes}, (16, 8))
    assert found.array.tolist() == [[0] * 8 + [1] * 8] * 8
    assert found == [vision.Segment("road", 0, 0.5), vision.Segment("sky", 1, 0.5)]
    with_axis = fitting.postprocess({"y": classes[:, None].astype(np.float32)}, (16, 8))
    assert (with_axis.array == found.array).all()


def test_cropped_regions_have_no_class() -> None:
    cover = vision.ImageInput(steps=(vision.Resize(4, 4, fit="cover"), vision.Crop(4, 4)))
    found = task(image=cover, form="classes").postprocess({"y": np.ones((1, 2, 2))}, (8, 4))
    assert found.array.tolist() == [[-1, -1, 1, 1, 1, 1, -1, -1]] * 4
    assert found == [vision.Segment("1", 1, 1.0)]


def test_channels_may_come_last() -> None:
    scores = np.random.default_rng(1).normal(size=(1, 3, 5, 6))
    image = vision.ImageInput(steps=(vision.Resize(8, 8),), layout="NHWC")
    found = task(image=image).postprocess({"y": scores.transpose(0, 2, 3, 1)}, (9, 7)).array
    assert (found == task().postprocess({"y": scores}, (9, 7)).array).all()


@pytest.mark.parametrize(
    ("form", "shape", "message"),
    [
        ("scores", (1, 8, 8), r"output 'y' has the shape \(8, 8\) for one image; expected C×h×w"),
        ("scores", (1, 0, 8, 8), r"output 'y' has the shape \(0, 8, 8\) for one image"),
        (
            "classes",
            (1, 2, 8, 8),
            r"output 'y' has the shape \(2, 8, 8\) for one image; expected h",
        ),
    ],
)
def test_outputs_that_are_not_maps_are_refused(
    form: Any, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(eb.EnginebayError, match=message):
        task(form=form).postprocess({"y": np.zeros(shape)}, (8, 8))


@pytest.mark.parametrize(
    ("fields", "dims", "message"),
    [
        ({}, (1, 8, 8), "the task expects scores, NxCxHxW, but the output is y float32[1, 8, 8]"),
        (
            {"form": "classes"},
            (1, 8),
            (
                "the task expects classes, 1xhxw or classes, 1x1xhxw, "
                "but the output is y float32[1, 8]"
            ),
        ),
        (
            {"classes": NAMES},
            (1, 4, 8, 8),
            "the task has 3 classes, but the output is y float32[1, 4, 8, 8]",
        ),
    ],
)
def test_outputs_that_do_not_fit_the_task_are_refused(
    fields: dict[str, Any], dims: tuple[int, ...], message: str
) -> None:
    image = (eb.TensorSpec("x", "float32", (1, 3, 8, 8)),)
    with pytest.raises(eb.EnginebayError) as caught:
        task(**fields).fit(image, [eb.TensorSpec("y", "float32", dims)])
    assert str(caught.value) == message
    fitted = task().fit(image, [eb.TensorSpec("y", "float32", (1, 3, "h", "w"))])
    assert (fitted.output, fitted.image.input) == ("y", "x")


def folder(path: Path, *masks: Any, names: tuple[str, str] = ("images", "annotations")) -> Path:
    """Write images of 4×2 pixels, and their masks."""
    for number, mask in enumerate(masks):
        for name in names:
            (path / name / "val").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 2)).save(path / names[0] / "val" / f"{number}.jpg")
        Image.fromarray(np.asarray(mask, np.uint8)).save(path / names[1] / "val" / f"{number}.png")
    return path


MASK = [[0, 1, 2, 255], [0, 0, 0, 0]]


@pytest.mark.parametrize("names", [("images", "annotations"), ("JPEGImages", "SegmentationClass")])
def test_items_are_images_with_masks(tmp_path: Path, names: tuple[str, str]) -> None:
    folder(tmp_path, MASK, MASK, names=names)
    Image.new("RGB", (4, 2)).save(tmp_path / names[0] / "val" / "without.jpg")
    items = list(eb.DataSet(tmp_path).for_task(task(classes=NAMES)))
    assert len(items) == 2
    assert items[0].target.truth.tolist() == [[0, 1, 2, -1], [0, 0, 0, 0]]
    ade = list(eb.DataSet(tmp_path).for_task(task(classes=NAMES[:2], from_one=True)))
    assert ade[0].target.truth.tolist() == [[-1, 0, 1, -1], [-1] * 4]


def test_palette_indices_are_read_as_classes(tmp_path: Path) -> None:
    folder(tmp_path, MASK)
    palette = Image.fromarray(np.asarray(MASK, np.uint8))
    palette.putpalette([*range(256)] * 3)
    palette.save(tmp_path / "annotations" / "val" / "0.png")
    (item,) = eb.DataSet(tmp_path).for_task(task())
    assert item.target.truth.tolist() == [[0, 1, 2, -1], [0, 0, 0, 0]]


def test_images_without_masks_have_no_targets(tmp_path: Path) -> None:
    folder(tmp_path, MASK, names=("images", "other"))
    assert [item.target for item in eb.DataSet(tmp_path).for_task(task())] == [None, None]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([[0, 0, 0]] * 2, "0.png' has the wrong size; expected the image's size 4x2, found 3x2"),
        (
            [[0, 0, 0, 3]] * 2,
            (
                "0.png' has a pixel of class 3, but the task has 3 classes, "
                "counted from 0; 255 means no class"
            ),
        ),
        ([[[0] * 3] * 4] * 2, "0.png' is a colour image, RGB; expected one number for each pixel"),
    ],
)
def test_invalid_masks_are_refused(tmp_path: Path, mask: Any, message: str) -> None:
    folder(tmp_path, mask)
    with pytest.raises(eb.EnginebayError) as caught:
        list(eb.DataSet(tmp_path).for_task(task(classes=NAMES)))
    assert str(caught.value).endswith(message)


def test_a_mask_without_an_image_is_refused(tmp_path: Path) -> None:
    folder(tmp_path, MASK)
    (tmp_path / "images" / "val" / "0.jpg").unlink()
    with pytest.raises(eb.EnginebayError) as caught:
        eb.DataSet(tmp_path).for_task(task())
    assert str(caught.value) == (
        f"'{tmp_path}/annotations/val/0.png' has no matching image: "
        f"'{tmp_path}/images' contains no 'val/0'"
    )


def measured(path: Path, found: Any) -> float:
    """Compute the metric of a model that finds these classes in each image of a folder."""
    metric, part = build_metric("miou"), build_metric("miou")
    fitting = task(form="classes", image=vision.ImageInput())
    for item in eb.DataSet(path).for_task(fitting):
        part.reset()
        part.update(np.asarray(found), item.target)
        metric.merge_state(part.metric_state)
    return metric.compute()


def test_miou_counts_pixels_of_all_images(tmp_path: Path) -> None:
    folder(tmp_path, MASK, [[0] * 4] * 2)
    everywhere = np.zeros((1, 2, 4))
    assert measured(tmp_path, everywhere) == pytest.approx((13 / 15 + 0 + 0) / 3)
    assert measured(tmp_path, [[[0, 1, 2, 5], [0, 0, 0, 0]]]) == pytest.approx(
        (10 / 13 + 1 / 2 + 1 / 2 + 0) / 4
    )
    assert np.isnan(build_metric("miou").compute())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), classes=st.integers(1, 5))
def test_miou_matches_its_definition_on_sets(seed: int, classes: int) -> None:
    from enginebay_vision.truth.annotated import Target

    random = np.random.default_rng(seed)
    found, true = random.integers(-1, classes, (2, 3, 6, 5))
    metric = build_metric("miou")
    fitting = task(form="classes", image=vision.ImageInput())
    for mask, truth in zip(found.clip(0), true, strict=True):
        metric.update({"y": mask[None]}, Target(fitting, (5, 6), truth))
    predicted, labelled = found.clip(0).ravel(), true.ravel()
    shares = []
    for index in range(classes):
        left = set(np.flatnonzero((predicted == index) & (labelled >= 0)))
        right = set(np.flatnonzero(labelled == index))
        if left | right:
            shares.append(len(left & right) / len(left | right))
    assert metric.compute() == pytest.approx(np.mean(shares) if shares else np.nan, nan_ok=True)


def test_unknown_and_unsuitable_metrics_are_refused() -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        build_metric("miuo")
    assert str(caught.value).startswith("unknown metric 'vision:miuo'; available: miou")
    assert caught.value.hint == "did you mean 'vision:miou'?"
    metric = build_metric("miou")
    with pytest.raises(eb.EnginebayError, match="the target is of type int; expected an image's"):
        metric.update(np.zeros(1), 3)
    from enginebay_vision.truth.annotated import Target

    other = vision.ObjectDetection(image=vision.ImageInput())
    with pytest.raises(eb.EnginebayError) as caught:
        metric.update(np.zeros(1), Target(other, (1, 1), None))
    assert str(caught.value) == (
        "the metric is for semantic-segmentation, but the artifact's task is object-detection"
    )


def test_masks_are_drawn_over_the_image(tmp_path: Path) -> None:
    white = Image.new("RGB", (100, 100), "white")
    fitting = task(form="classes", classes=NAMES, image=vision.ImageInput())
    mask = np.zeros((1, 100, 100))
    mask[:, 50:] = 1
    found = fitting.postprocess({"y": mask}, (100, 100))
    fitting.draw(white, found, tmp_path / "out.png")
    drawn = np.asarray(Image.open(tmp_path / "out.png")).astype(int)
    assert (drawn[60:, 60:] == drawn[60, 60]).all()
    assert (drawn[60, 60] != drawn[45, 95]).any()
    assert drawn[60, 60].max() >= 127
    assert white.getpixel((0, 0)) == (255, 255, 255)
