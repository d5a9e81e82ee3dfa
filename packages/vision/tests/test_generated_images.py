"""Image-to-image tasks and depths: geometry, files and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

import enginebay as eb
import enginebay_vision as vision
from enginebay_vision.metrics.registry import build_metric
from enginebay_vision.truth.annotated import Target

if TYPE_CHECKING:
    from pathlib import Path

SQUARE = (vision.Resize(8, 8, fit="contain"), vision.Crop(8, 8))


def enlarging(**fields: Any) -> vision.ImageToImage:
    return vision.ImageToImage(image=vision.ImageInput(**fields), output="y")


def depth(**fields: Any) -> vision.DepthEstimation:
    image = vision.ImageInput(steps=fields.pop("steps", ()))
    return vision.DepthEstimation(image=image, output="y", **fields)


@settings(max_examples=20, deadline=None)
@given(
    channels=st.sampled_from(["RGB", "BGR", "L"]),
    layout=st.sampled_from(["NCHW", "NHWC"]),
    width=st.integers(1, 9),
    height=st.integers(1, 9),
)
def test_the_output_has_the_inputs_pixel_format(
    channels: Any, layout: Any, width: int, height: int
) -> None:
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3)).astype(np.uint8)
    image = Image.fromarray(pixels)
    mean, std = (0.4, 0.5, 0.6)[: len(channels)], (0.2, 0.3, 0.4)[: len(channels)]
    task = enlarging(channels=channels, layout=layout, mean=mean, std=std)
    (made,) = task.preprocess(image).values()
    axes = (2, 3) if layout == "NCHW" else (1, 2)
    found = task.postprocess({"y": made.repeat(2, axes[0]).repeat(2, axes[1])}, (width, height))
    wanted = image.convert("L" if channels == "L" else "RGB").resize(
        (2 * width, 2 * height), Image.Resampling.NEAREST
    )
    assert (found.array == np.asarray(wanted)).all()
    assert found == [vision.MadePicture(2 * width, 2 * height)]


def test_padding_is_cropped_from_the_output(tmp_path: Path) -> None:
    """16×8 becomes 8×4 at 2 from the top, and 24×12 of an output three times as large."""
    values = np.zeros((1, 3, 24, 24), np.float32)
    values[:, :, 6:18] = 2.0  # more than white
    task = enlarging(steps=SQUARE)
    found = task.postprocess({"y": values}, (16, 8))
    assert found.array.shape == (12, 24, 3)
    assert (found.array == 255).all()
    task.draw(Image.new("RGB", (16, 8)), found, tmp_path / "made.png")
    with Image.open(tmp_path / "made.png") as made:
        assert (made.size, made.getpixel((0, 0))) == ((24, 12), (255, 255, 255))


def test_the_output_covers_only_the_cropped_region() -> None:
    cover = (vision.Resize(8, 8, fit="cover"), vision.Crop(8, 8))
    found = enlarging(steps=cover).postprocess({"y": np.ones((1, 3, 16, 16))}, (10, 8))
    assert found == [vision.MadePicture(16, 16)]


def test_psnr_is_in_decibels(tmp_path: Path) -> None:
    for name, size in (("lr", 2), ("hr", 4)):
        (tmp_path / name).mkdir()
        Image.new("RGB", (size, size), (100, 100, 100)).save(tmp_path / name / "a.png")
    (item,) = eb.DataSet(tmp_path).for_task(enlarging())
    metric = build_metric("psnr")
    values = np.full((1, 3, 4, 4), 110 / 255, np.float32)
    metric.update(values, item.target)
    assert metric.compute() == pytest.approx(10 * np.log10(255**2 / 100))
    metric.update(np.full((1, 3, 4, 4), 101 / 255, np.float32), item.target)
    assert metric.compute() == pytest.approx(10 * np.log10(255**2 / 10))
    with pytest.raises(eb.EnginebayError) as caught:
        metric.update(values[:, :, :3], item.target)
    assert str(caught.value) == ("wrong size of the output: expected 4x4 pixels, found 4x3")
    metric.reset()
    metric.update(np.full((1, 3, 4, 4), 100 / 255, np.float32), item.target)
    assert metric.compute() == float("inf")


def test_depths_are_mapped_back_to_the_image(tmp_path: Path) -> None:
    values = np.zeros((1, 1, 8, 8), np.float32)
    values[:, :, 2:6] = np.arange(4)[:, None]
    found = depth(steps=SQUARE).postprocess({"y": values}, (8, 4))
    assert found.array.tolist() == [[row] * 8 for row in range(4)]
    assert found == [vision.DepthRange(0.0, 3.0, 1.5)]
    depth().draw(Image.new("RGB", (8, 4)), found, tmp_path / "depth.png")
    with Image.open(tmp_path / "depth.png") as drawn:
        assert np.asarray(drawn)[:, 0].tolist() == [0, 85, 170, 255]
    cover = (vision.Resize(4, 4, fit="cover"), vision.Crop(4, 4))
    cut = depth(steps=cover).postprocess({"y": np.ones((1, 4, 4))}, (8, 4))
    assert np.isnan(cut.array[0]).tolist() == [True, True, *[False] * 4, True, True]
    assert cut == [vision.DepthRange(1.0, 1.0, 1.0)]


def measured(name: str, task: vision.DepthEstimation, found: Any, true: Any) -> float:
    metric = build_metric(name)
    truth = np.asarray(true, np.float32)
    metric.update(np.asarray(found, np.float32)[None], Target(task, truth.shape[::-1], truth))
    return metric.compute()


def test_depth_metrics_match_known_values(tmp_path: Path) -> None:
    assert measured("abs-rel", depth(), [[1, 3], [9, 2]], [[2, 2], [0, 2]]) == pytest.approx(1 / 3)
    assert measured("rmse", depth(), [[1, 3], [9, 2]], [[2, 2], [0, 2]]) == pytest.approx(
        np.sqrt(2 / 3)
    )
    with pytest.raises(eb.EnginebayError, match="no pixel has both a true and a predicted depth"):
        measured("rmse", depth(), [[1, 1]], [[0, 0]])
    for name in ("images", "depth"):
        (tmp_path / name).mkdir()
    Image.new("RGB", (2, 1)).save(tmp_path / "images" / "a.jpg")
    Image.fromarray(np.array([[1500, 0]], np.uint16)).save(tmp_path / "depth" / "a.png")
    (item,) = eb.DataSet(tmp_path).for_task(depth())
    assert item.target.truth.tolist() == [[1.5, 0]]


@settings(max_examples=20, deadline=None)
@given(scale=st.floats(0.1, 50), shift=st.floats(-5, 5), seed=st.integers(0, 99))
def test_relative_depths_ignore_scale_and_shift(scale: float, shift: float, seed: int) -> None:
    true = np.random.default_rng(seed).uniform(1, 10, (5, 6))
    found = scale / true + shift
    assert measured("abs-rel", depth(relative=True), found, true) == pytest.approx(0, abs=1e-3)


def test_fitted_depths_do_not_exceed_the_largest_true_depth() -> None:
    """An inverse depth that is 0 or less would be beyond infinity."""
    true = [[1, 2, 4, 4]]
    found = [[1, 0.5, 0.25, -0.25]]
    value = measured("abs-rel", depth(relative=True), found, true)
    scale, shift = np.polyfit(found[0], 1 / np.array(true[0]), 1)
    fitted = 1 / np.maximum(scale * np.array(found[0]) + shift, 0.25)
    assert (scale * np.array(found[0]) + shift).min() < 0.25
    assert value == pytest.approx(np.mean(np.abs(fitted - true[0]) / true[0]))


@pytest.mark.parametrize(
    ("task", "dims", "message"),
    [
        (
            enlarging(),
            (1, 1, 8, 8),
            (
                "the task expects an image of 3 channels, RGB, but the output is "
                "y float32[1, 1, 8, 8]"
            ),
        ),
        (
            enlarging(),
            (1, 8),
            "the task expects an image, NxCxHxW, but the output is y float32[1, 8]",
        ),
        (
            depth(),
            (8,),
            "the task expects a map, 1xhxw or a map, 1x1xhxw, but the output is y float32[8]",
        ),
    ],
)
def test_outputs_that_do_not_fit_the_task_are_refused(
    task: Any, dims: tuple[int, ...], message: str
) -> None:
    image = (eb.TensorSpec("x", "float32", (1, 3, "h", "w")),)
    with pytest.raises(eb.EnginebayError) as caught:
        task.fit(image, [eb.TensorSpec("y", "float32", dims)])
    assert str(caught.value) == message


def test_wrong_output_shapes_and_units_are_refused() -> None:
    with pytest.raises(
        eb.EnginebayError, match=r"the shape \(8, 8\) for one image; expected C×h×w"
    ):
        enlarging().postprocess({"y": np.zeros((1, 8, 8))}, (8, 8))
    with pytest.raises(
        eb.EnginebayError, match=r"the shape \(2, 8, 8\) for one image; expected h×w"
    ):
        depth().postprocess({"y": np.zeros((1, 2, 8, 8))}, (8, 8))
    with pytest.raises(eb.EnginebayError, match="'unit' is 0; expected a number above 0"):
        depth(unit=0)
