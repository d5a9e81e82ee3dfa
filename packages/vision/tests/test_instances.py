"""Instance segmentation: masks at the image's size, refusals, drawing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

import enginebay as eb
import enginebay_vision as vision
from enginebay.authors.sources import read_task

from .conftest import recorded

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("cat", "dog")
LETTERBOX = (vision.Resize(32, 32, fit="contain"), vision.Crop(32, 32))


def task(**fields: Any) -> vision.InstanceSegmentation:
    image = vision.ImageInput(steps=fields.pop("steps", ()))
    return vision.InstanceSegmentation(image=image, **{"classes": NAMES, **fields})


def found(
    fitting: vision.InstanceSegmentation, boxes: Any, masks: Any, size: tuple[int, int]
) -> vision.FoundInstances:
    """Return the instances of boxes of class 1, all with the same score."""
    boxes = np.asarray(boxes, np.float32)[None]
    outputs = {
        "boxes": boxes,
        "scores": np.full(boxes.shape[:2], 0.9),
        "labels": np.ones(boxes.shape[:2], np.int64),
        "masks": np.asarray(masks)[None],
    }
    return fitting.postprocess(outputs, size)


def smooth(seed: int, height: int, width: int) -> Any:
    """Return probabilities without an entry near 0.5, so that rounding decides nothing."""
    return np.random.default_rng(seed).random((height, width), np.float32)


def differing(mask: Any, wanted: Any) -> Any:
    """Return where a mask differs from probabilities that are not just at the threshold."""
    return (mask != (wanted >= 0.5)) & (abs(wanted - 0.5) > 1e-3)


@settings(max_examples=60, deadline=None)
@given(
    edges=st.tuples(*[st.floats(-9, 30)] * 2, *[st.floats(0.1, 40)] * 2),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 999),
)
def test_masks_of_boxes_match_torchs_grid_sample(
    edges: tuple[float, ...], shape: tuple[int, int], seed: int
) -> None:
    """As mmdet and Detectron2 paste masks: with zeros around them."""
    import torch

    left, top, width, height = np.asarray(edges, np.float32).tolist()
    mask = smooth(seed, *shape)
    x, y = (np.arange(25) + 0.5 - left) / width, (np.arange(17) + 0.5 - top) / height
    grid = torch.from_numpy(np.stack(np.meshgrid(2 * x - 1, 2 * y - 1), -1)[None]).float()
    sampled = torch.nn.functional.grid_sample(
        torch.from_numpy(mask)[None, None], grid, align_corners=False, padding_mode="zeros"
    )
    (one,) = found(task(), [[left, top, left + width, top + height]], mask[None], (25, 17)).array
    assert not differing(one, sampled[0, 0].numpy()).any()


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 90),
    height=st.integers(1, 90),
    rounding=st.sampled_from(["down", "nearest"]),
    at=st.sampled_from(["middle", "corner"]),
    seed=st.integers(0, 999),
    threshold=st.sampled_from([0.1, 0.5, 0.9]),
)
def test_masks_of_the_input_match_torchs_interpolation(
    width: int, height: int, rounding: Any, at: Any, seed: int, threshold: float
) -> None:
    """Also of odd sizes that a letterbox rounds; padding has no pixel of the image."""
    import torch

    steps = (
        vision.Resize(32, 32, fit="contain", rounding=rounding),
        vision.Crop(32, 32, at=at, rounding=rounding),
    )
    placed = vision.ImageInput(steps=steps).place(width, height)
    inner = (round(height * placed.scale_y), round(width * placed.scale_x))
    top, left = int(placed.top), int(placed.left)
    mask = smooth(seed, *inner)
    # The border of the padding as of the image: the reference does not see the padding.
    sides = [(top, 32 - top - inner[0]), (left, 32 - left - inner[1])]
    whole = np.pad(mask, sides, mode="edge")
    wanted = torch.nn.functional.interpolate(
        torch.from_numpy(mask)[None, None], (height, width), mode="bilinear", align_corners=False
    )[0, 0].numpy()
    fitting = task(steps=steps, mask_form="image", mask_threshold=threshold)
    (one,) = found(fitting, [[0, 0, 32, 32]], whole[None], (width, height)).array
    assert not differing(one, wanted + 0.5 - threshold).any()


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float16, np.float64])
@pytest.mark.parametrize("form", ["box", "image"])
def test_masks_of_any_dtype_are_mapped_back_like_their_boxes(form: Any, dtype: Any) -> None:
    """20×10 becomes 32×16 at 8 from the top, so that 8 entries are 5 pixels."""
    whole = np.zeros((32, 32), dtype)
    whole[8:16, 16:24] = 1
    mask = np.ones((3, 3), dtype) if form == "box" else whole
    (one,) = rows = found(
        task(steps=LETTERBOX, mask_form=form), [[16, 8, 24, 16]], mask[None], (20, 10)
    )
    edges = (one.left, one.top, one.right, one.bottom, one.area)
    assert edges == (10, 0, 15, 5, 25)
    assert np.argwhere(rows.array[0]).tolist() == [[y, x] for y in range(5) for x in range(10, 15)]
    assert (rows.array.shape, rows.array.dtype) == ((1, 10, 20), bool)


def test_masks_in_the_region_that_the_steps_cut_off_are_empty() -> None:
    cover = (vision.Resize(4, 4, fit="cover"), vision.Crop(4, 4))
    (one,) = rows = found(
        task(steps=cover, mask_form="image"), [[0, 0, 4, 4]], np.ones((1, 4, 4)), (8, 4)
    )
    assert rows.array[0].tolist() == [[False] * 2 + [True] * 4 + [False] * 2] * 4
    assert (one.left, one.right, one.area) == (2, 6, 16)


#: The box, and the pixels of an image of 6×5 that a full mask of the box has.
BOXES: list[tuple[list[float], list[list[int]]]] = [
    ([2, 1, 3, 2], [[1, 2]]),
    ([2.1, 1.1, 2.4, 1.4], []),  # no pixel has its centre there
    ([2.4, 1.4, 2.6, 1.6], [[1, 2]]),
    ([2, 1, 2, 4], []),
    ([4, 1, 2, 4], []),
    ([-5, -5, 1, 2], [[0, 0], [1, 0]]),
    ([5, 4, 9, 9], [[4, 5]]),
    ([7, 1, 9, 3], []),
    ([-9, -9, -1, -1], []),
    ([-1e30, 4, 1e30, 5], [[4, x] for x in range(6)]),
]


@pytest.mark.parametrize(("box", "pixels"), BOXES)
@pytest.mark.parametrize("form", ["box", "image"])
def test_boxes_without_area_or_outside_of_the_image(
    box: list[float], pixels: list[list[int]], form: Any
) -> None:
    """Each box is still a result, as in object detection; the masks of images ignore the box."""
    masks = np.ones((1, 3, 3)) if form == "box" else np.zeros((1, 5, 6))
    (one,) = rows = found(task(mask_form=form), [box], masks, (6, 5))
    assert np.argwhere(rows.array[0]).tolist() == (pixels if form == "box" else [])
    assert one.area == (len(pixels) if form == "box" else 0)


def test_only_the_rectangle_of_a_mask_is_kept() -> None:
    """The masks of 100 objects in this image would take 1.2 GB."""
    boxes = np.tile([100.0, 100, 120, 130], (100, 1))
    rows = found(task(), boxes, np.ones((100, 28, 28), np.float32), (4000, 3000))
    assert [row.area for row in rows] == [600] * 100
    assert sum(mask.pixels.nbytes for mask in rows.masks) == 60000
    whole = np.zeros((1, 300, 400), bool)
    whole[:, 100:110, 50:60] = True
    steps = (vision.Resize(300, 400),)
    (mask,) = found(task(steps=steps, mask_form="image"), [[0, 0, 9, 9]], whole, (4000, 3000)).masks
    assert (mask.left, mask.top) == (490, 990)
    assert mask.pixels.shape == (120, 120)


def test_masks_belong_to_the_boxes_that_are_selected() -> None:
    """Boxes are sorted, suppressed and below the threshold; rows of padding are in the output."""
    fitting = task(nms=vision.Suppression(iou=0.5))
    outputs = {
        "boxes": np.array([[[0, 0, 4, 4], [4, 0, 8, 4], [0, 0, 4, 4.1], [0, 0, 0, 0]]]),
        "scores": np.array([[0.6, 0.9, 0.7, 0.0]]),
        "labels": np.array([[0, 1, 0, -1]]),
        "masks": np.zeros((1, 4, 2, 2)),
    }
    outputs["masks"][0, 1, 0] = 1
    outputs["masks"][0, 2, 1] = 1
    rows = fitting.postprocess(outputs, (8, 6))
    assert [(row.name, row.score) for row in rows] == [("dog", 0.9), ("cat", 0.7)]
    assert rows.array.astype(int).tolist() == [
        [[0, 0, 0, 0, 1, 1, 1, 1]] * 2 + [[0] * 8] * 4,
        [[0] * 8] * 2 + [[1, 1, 1, 1, 0, 0, 0, 0]] * 2 + [[0] * 8] * 2,
    ]


def test_the_classes_of_one_box_share_its_mask() -> None:
    outputs = {
        "boxes": np.array([[[0, 0, 4, 4], [4, 0, 8, 4]]]),
        "scores": np.array([[[0.6, 0.9], [0.7, 0.1]]]),
        "masks": np.array([[np.ones((2, 2)), [[1, 1], [0, 0]]]]),
    }
    rows = task(labels="", every_class=True).postprocess(outputs, (8, 4))
    assert [(row.name, row.left, row.area) for row in rows] == [
        ("dog", 0, 16),
        ("cat", 4, 8),
        ("cat", 0, 16),
    ]


@pytest.mark.parametrize("shape", [(1, 1, 2, 2), (1, 2, 2), (1, 1, 1, 2, 2)])
def test_an_only_box_is_not_a_batch(shape: tuple[int, ...]) -> None:
    """torchvision's outputs have no batch axis, and one channel; mmdet's have a batch axis."""
    outputs = {
        "boxes": np.array([[0.0, 0, 4, 4]]),
        "scores": np.array([0.9]),
        "labels": np.array([1]),
        "masks": np.ones(shape),
    }
    (one,) = task().postprocess(outputs, (8, 6))
    assert one.area == 16
    several = {name: np.concatenate([values] * 3) for name, values in outputs.items()}
    if len(shape) < 5:
        assert [row.area for row in task().postprocess(several, (8, 6))] == [16] * 3


@pytest.mark.parametrize("form", ["box", "image"])
def test_an_image_without_objects_has_no_masks(form: Any, tmp_path: Path) -> None:
    outputs = {
        "boxes": np.zeros((1, 0, 4)),
        "scores": np.zeros((1, 0)),
        "labels": np.zeros((1, 0)),
        "masks": np.zeros((1, 0, 28, 28) if form == "box" else (1, 0, 8, 8)),
    }
    fitting = task(mask_form=form)
    rows = fitting.postprocess(outputs, (8, 8))
    assert (rows, rows.masks, rows.array.shape) == ([], (), (0, 8, 8))
    fitting.draw(Image.new("RGB", (8, 8)), rows, tmp_path / "a.png")
    assert (tmp_path / "a.png").is_file()


def test_results_as_json_have_no_pixels() -> None:
    rows = found(task(), [[0, 0, 4, 4]], np.ones((1, 2, 2)), (8, 6))
    (row,) = json.loads(msgspec.json.encode(msgspec.to_builtins(rows)))
    assert list(row) == ["name", "index", "score", "left", "top", "right", "bottom", "area"]
    assert (row["name"], row["area"]) == ("dog", 16)


def prototype_task(**fields: Any) -> vision.InstanceSegmentation:
    """Return the task of a segmentation model of ultralytics, with columns as boxes."""
    layout = {"boxes": "y", "scores": "", "labels": "", "columns": True, "box_form": "cxcywh"}
    fields = {"steps": LETTERBOX, "masks": "p", "mask_form": "prototypes", **layout, **fields}
    return task(nms=vision.Suppression(), **fields)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    width=st.integers(8, 50),
    height=st.integers(8, 50),
    threshold=st.sampled_from([0.2, 0.5, 0.7]),
)
def test_prototypes_match_their_definition(
    seed: int, width: int, height: int, threshold: float
) -> None:
    """As ultralytics: sums of prototypes at a quarter of the size, enlarged, cut at the boxes."""
    import torch

    random = np.random.default_rng(seed)
    fitting = prototype_task(mask_threshold=threshold)
    prototypes = random.normal(size=(1, 5, 8, 8)).astype(np.float32)
    boxes = np.array([[9.0, 9], [22, 23], [9, 30], [16, 28]])  # a column is a box
    columns = np.concatenate([boxes, [[0.9, 0.2], [0.3, 0.8]], random.normal(size=(5, 2))])
    rows = fitting.postprocess({"y": columns[None], "p": prototypes}, (width, height))
    assert [(row.name, row.score) for row in rows] == [("cat", 0.9), ("dog", 0.8)]
    placed = fitting.image.place(width, height)
    x = ((np.arange(width) + 0.5) * placed.scale_x + placed.left) / 32
    y = ((np.arange(height) + 0.5) * placed.scale_y + placed.top) / 32
    grid = torch.from_numpy(np.stack(np.meshgrid(2 * x - 1, 2 * y - 1), -1)[None]).float()
    for number, (row, mask) in enumerate(zip(rows, rows.array, strict=True)):
        sums = (columns[6:, number, None, None] * prototypes[0]).sum(0)
        wanted = (
            torch.nn.functional.grid_sample(
                torch.from_numpy(sums)[None, None].float(),
                grid,
                align_corners=False,
                padding_mode="border",
            )
            .sigmoid()[0, 0]
            .numpy()
        )
        inside_x = (np.arange(width) + 0.5 >= row.left) & (np.arange(width) + 0.5 < row.right)
        inside_y = (np.arange(height) + 0.5 >= row.top) & (np.arange(height) + 0.5 < row.bottom)
        inside = inside_y[:, None] & inside_x
        assert not differing(mask, np.where(inside, wanted + 0.5 - threshold, 0)).any()
        assert row.area == mask.sum()


def test_a_task_fits_prototypes() -> None:
    image = eb.TensorSpec("x", "float32", (1, 3, 32, 32))

    def fit(columns: int | str, *prototypes: int | str, **fields: Any) -> Any:
        boxes = eb.TensorSpec("y", "float32", (1, columns, 84))
        masks = eb.TensorSpec("p", "float32", prototypes)
        return prototype_task(**fields).fit([image], [boxes, masks])

    assert fit(38, 1, 32, 8, 8).masks == "p"
    assert fit("c", 1, "k", "h", "w").boxes == "y"
    for columns, prototypes, message in (
        (38, (32, 8, 8), "the task expects prototypes, 1xkxhxw, but the output is p float32[32, 8"),
        (40, (1, 32, 8, 8), "the task has 2 classes, but the output is y float32[1, 40, 84]"),
        (
            36,
            (1, 32, 8, 8),
            (
                "the task expects four numbers for each box, followed by scores, followed by 32 "
                "coefficients of a mask, but the output is y float32[1, 36, 84]"
            ),
        ),
    ):
        with pytest.raises(eb.EnginebayError) as caught:
            fit(columns, *prototypes, classes=NAMES[:2])
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("columns", "prototypes", "message"),
    [
        (
            np.ones((1, 10, 3)),
            np.ones((1, 6, 8, 8)),
            (
                "output 'y' has the shape (3, 10); expected four numbers per box and 6 "
                "coefficients of a mask"
            ),
        ),
        (
            np.ones((1, 10, 3)),
            np.ones((8, 8)),
            "output 'p' has the shape (8, 8) for one image; expected C×h×w",
        ),
        (
            np.ones((1, 10, 3)),
            np.full((1, 4, 8, 8), np.nan),
            "output 'p' contains NaN or infinity",
        ),
    ],
)
def test_wrong_prototypes_are_refused(columns: Any, prototypes: Any, message: str) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        prototype_task().postprocess({"y": columns, "p": prototypes}, (8, 8))
    assert str(caught.value) == message


def test_no_box_of_prototypes_is_no_instance() -> None:
    outputs = {"y": np.zeros((1, 10, 0)), "p": np.zeros((1, 4, 8, 8))}
    assert prototype_task().postprocess(outputs, (8, 8)) == []


WRONG_OUTPUTS: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("box", {"masks": None}, "unknown output 'masks'; available: boxes, scores, labels", None),
    (
        "box",
        {"masks": np.ones((2, 2))},
        "output 'masks' has the shape (2, 2) for one image; expected N×h×w or N×1×h×w",
        None,
    ),
    (
        "box",
        {"masks": np.ones((1, 2, 80, 28, 28))},
        "output 'masks' has the shape (1, 2, 80, 28, 28) for one image; expected N×h×w or N×1×h×w",
        None,
    ),
    (
        "box",
        {"masks": np.ones((1, 2, 0, 4))},
        "output 'masks' has the shape (1, 2, 0, 4) for one image; expected N×h×w or N×1×h×w",
        None,
    ),
    (
        "box",
        {"masks": np.ones((1, 3, 2, 2))},
        "found 2 boxes and 3 masks; expected equal numbers",
        None,
    ),
    (
        "box",
        {"masks": np.full((1, 2, 2, 2), np.nan)},
        "output 'masks' contains NaN or infinity",
        None,
    ),
    (
        "image",
        {"masks": np.full((1, 2, 6, 8), np.inf)},
        "output 'masks' contains NaN or infinity",
        None,
    ),
    (
        "box",
        {"masks": np.array([[[[-3, 0], [1, 4]]] * 2])},
        "output 'masks' has numbers from -3 to 4; expected probabilities from 0 to 1",
        "add a sigmoid to the end of the model",
    ),
    (
        "image",
        {"masks": np.ones((1, 2, 28, 28))},
        (
            "mask_form 'image' expects masks with the input's size, 6x8, but the output is "
            "'masks' with the "
            "shape (1, 2, 28, 28)"
        ),
        "set mask_form='box' in the task",
    ),
    (
        "box",
        {"masks": np.ones((1, 2, 6, 8))},
        (
            "mask_form 'box' expects masks that do not have the input's size, 6x8, but the "
            "output is 'masks' "
            "with the shape (1, 2, 6, 8)"
        ),
        "set mask_form='image' in the task",
    ),
]


@pytest.mark.parametrize(("form", "changes", "message", "hint"), WRONG_OUTPUTS)
def test_wrong_masks_are_refused(
    form: Any, changes: dict[str, Any], message: str, hint: str | None
) -> None:
    outputs = {
        "boxes": np.tile([0.0, 0, 4, 4], (1, 2, 1)),
        "scores": np.full((1, 2), 0.9),
        "labels": np.ones((1, 2)),
        **changes,
    }
    given = {name: values for name, values in outputs.items() if values is not None}
    with pytest.raises(eb.EnginebayError) as caught:
        task(mask_form=form).postprocess(given, (8, 6))
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_nan_in_the_mask_of_a_box_that_is_not_selected_is_no_error() -> None:
    """Rows of padding may have any mask."""
    outputs = {
        "boxes": np.zeros((1, 1, 4)),
        "scores": np.zeros((1, 1)),
        "labels": np.full((1, 1), -1),
        "masks": np.full((1, 1, 2, 2), np.nan),
    }
    assert task().postprocess(outputs, (8, 6)) == []


MISFITS: list[tuple[dict[str, Any], tuple[int | str, ...], str, str | None]] = [
    ({"masks": "mask"}, (1, 5, 28, 28), "unknown output 'mask' in the task; available:", "did you"),
    (
        {},
        (1, 28),
        (
            "the task expects masks, Nxhxw or masks, 1xNxhxw or masks, 1xNx1xhxw, but the output "
            "is masks float32[1, 28]"
        ),
        None,
    ),
    (
        {},
        (1, 5, 32, 32),
        (
            "mask_form 'box' expects masks that do not have the input's size, 32x32, but the "
            "output is masks "
            "float32[1, 5, 32, 32]"
        ),
        "set mask_form='image' in the task",
    ),
    (
        {"mask_form": "image"},
        (1, "n", 28, 28),
        (
            "mask_form 'image' expects masks with the input's size, 32x32, but the output is masks "
            "float32[1, n, 28, 28]"
        ),
        "set mask_form='box' in the task",
    ),
]


@pytest.mark.parametrize(("fields", "dims", "message", "hint"), MISFITS)
def test_outputs_that_do_not_fit_the_task_are_refused(
    fields: dict[str, Any], dims: tuple[int | str, ...], message: str, hint: str | None
) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        fitted(dims, **fields)
    assert str(caught.value).startswith(message)
    assert (caught.value.hint or "").startswith(hint or "")


def fitted(dims: tuple[int | str, ...], **fields: Any) -> vision.InstanceSegmentation:
    image = eb.TensorSpec("x", "float32", (1, 3, 32, 32))
    outputs = [eb.TensorSpec("dets", "float32", (1, 5, 5)), eb.TensorSpec("labels", "int64", (5,))]
    outputs.append(eb.TensorSpec("masks", "float32", dims))
    return task(steps=LETTERBOX, boxes="", scores="", **fields).fit([image], outputs)


def test_a_task_fits_masks_of_known_and_unknown_size() -> None:
    assert fitted((1, 5, 28, 28)).boxes == "dets"
    assert fitted(("n", 1, 32, 32), mask_form="image").image.input == "x"
    for form in ("box", "image"):
        assert fitted((1, "n", "h", "w"), mask_form=form).mask_form == form


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"masks": ""}, "'masks' is empty; expected the name of the output with the masks"),
        ({"mask_threshold": 0}, "'mask_threshold' is 0; expected a number above 0 and below 1"),
        ({"mask_threshold": 1}, "'mask_threshold' is 1; expected a number above 0 and below 1"),
        ({"threshold": 2}, "'threshold' is 2; expected a number from 0 to 1"),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        task(**fields)
    assert str(caught.value) == message


def test_a_recorded_task_reads_back_equal() -> None:
    record = recorded(task(mask_form="image", mask_threshold=0.4))
    assert (record["type"], record["masks"], record["mask_form"]) == (
        *("instance-segmentation", "masks", "image"),
    )
    assert read_task(record) == task(mask_form="image", mask_threshold=0.4)
    with pytest.raises(eb.EnginebayError, match=r"Invalid enum value 'boxes' - at `\$.mask_form`"):
        read_task({**record, "mask_form": "boxes"})


def test_masks_boxes_and_labels_are_drawn(tmp_path: Path) -> None:
    """The image is rotated by its EXIF data, and the first object is on top."""
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter to the right
    Image.new("RGB", (60, 100), "white").save(tmp_path / "a.jpg", exif=exif)
    outputs = {
        "boxes": np.array([[[10.0, 10, 60, 50], [10, 10, 60, 50]]]),
        "scores": np.array([[0.7, 0.9]]),
        "labels": np.array([[0, 1]]),
        "masks": np.stack([np.ones((2, 2)), np.array([[0, 0], [1, 1]])])[None],
    }
    fitting = task()
    rows = fitting.postprocess(outputs, (100, 60))
    fitting.draw(tmp_path / "a.jpg", rows, tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.size == (100, 60)
        upper, lower = drawn.getpixel((50, 27)), drawn.getpixel((50, 40))
        assert drawn.getpixel((80, 40)) == (255, 255, 255)
    assert upper != lower
    assert (255, 255, 255) not in (upper, lower)
