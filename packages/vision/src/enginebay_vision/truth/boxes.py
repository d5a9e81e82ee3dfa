"""Reads annotated boxes in COCO's or VOC's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.truth.class_numbers import number_classes
from enginebay_vision.truth.coco import read_coco_file
from enginebay_vision.truth.files import find_image_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.truth.coco import CocoFile

_VOC_EDGES = ("xmin", "ymin", "xmax", "ymax")


class TrueBoxes(NamedTuple):
    """The annotated objects in an image.

    Attributes:
        corners: ``N×4``: left, top, right and bottom, in pixels of the image.
        classes: The class index of each object.
        ignored: True for each object that metrics ignore: a group, or a box marked as difficult.
        masks: The mask of each object, for a task with masks: an ``AnnotatedMask`` or, after the
            image was read, the dict that pycocotools encodes it as.
    """

    corners: NumpyArray
    classes: NumpyArray
    ignored: NumpyArray
    masks: Sequence[Any] = ()


class _NamedBox(NamedTuple):
    name: str
    corners: tuple[float, float, float, float]
    ignored: bool
    mask: object = None


def find_annotated_boxes(
    path: Path,
    classes: Sequence[str],
    read_masks: Callable[[CocoFile], Sequence[object]] | None = None,
) -> list[tuple[Path, TrueBoxes]] | None:
    """Return each image file with its annotated boxes, from a folder in COCO's or VOC's layout.

    Args:
        path: The folder; for a folder in another layout, the result is None.
        classes: The task's class names; empty if the task has none.
        read_masks: The function that returns the masks of a COCO file; None for a task without
            masks. With this function, VOC's layout is another one.

    Raises:
        InputError: An annotation is not valid, or has a class that the task does not have.
    """
    coco = read_coco_file(path)
    named: dict[Path, list[_NamedBox]] = {}
    if coco is not None:
        names = {category.id: category.name for category in coco.categories}
        named = {image: [] for image in coco.images.values()}
        masks = read_masks(coco) if read_masks else [None] * len(coco.objects)
        for entry, mask in zip(coco.objects, masks, strict=True):
            left, top, width, height = entry.bbox
            box = (left, top, left + width, top + height)
            named[coco.images[entry.image_id]].append(
                _NamedBox(names[entry.category_id], box, bool(entry.iscrowd), mask)
            )
        listed = list(names.values())
    elif (path / "Annotations").is_dir() and not read_masks:
        pairs = find_image_pairs(path, (("JPEGImages", "Annotations"),), (".xml",))
        # Each image has a file: pairs without one are only for folders without annotations.
        named = {image: _read_voc_file(file) for image, file in pairs if file is not None}
        listed = sorted({box.name for boxes in named.values() for box in boxes})
    else:
        return None
    if set(listed) & set(classes):
        # A COCO file may list categories that no image has, and that the task does not know.
        used = {box.name for boxes in named.values() for box in boxes}
        listed = [name for name in listed if name in used]
    source = str(path if coco is None else coco.path)
    _, indices = number_classes(listed, classes, f"'{source}'", "category")
    class_indices = dict(zip(listed, indices, strict=True))
    return [(image, _stack_boxes(boxes, class_indices)) for image, boxes in named.items()]


def _stack_boxes(boxes: Sequence[_NamedBox], class_indices: dict[str, int]) -> TrueBoxes:
    return TrueBoxes(
        np.asarray([box.corners for box in boxes], np.float64).reshape(-1, 4),
        np.asarray([class_indices[box.name] for box in boxes], np.int64),
        np.asarray([box.ignored for box in boxes], bool),
        [box.mask for box in boxes],
    )


def _read_voc_file(path: Path) -> list[_NamedBox]:
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314  # expat limits entities since 2.4.1
        boxes = []
        for entry in root.iter("object"):
            edges = (entry.findtext(f"bndbox/{edge}", "") for edge in _VOC_EDGES)
            left, top, right, bottom = map(float, edges)
            difficult = entry.findtext("difficult", "0").strip() == "1"
            name = entry.findtext("name", "").strip()
            # VOC counts pixels from 1, and its box includes the last pixel.
            boxes.append(_NamedBox(name, (left - 1, top - 1, right, bottom), difficult))
    except (OSError, ValueError, ElementTree.ParseError) as err:
        raise InputError(f"'{path}' is not a VOC annotation file: {err}") from err
    return boxes
