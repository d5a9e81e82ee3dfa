"""Annotated boxes in COCO's or VOC's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.truth.class_numbers import number_classes
from enginebay_vision.truth.coco import read_coco
from enginebay_vision.truth.files import find_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay.authors import NumpyArray

_VOC_EDGES = ("xmin", "ymin", "xmax", "ymax")


class TrueBoxes(NamedTuple):
    """The annotated objects in an image.

    Attributes:
        corners: ``N×4``: left, top, right, bottom, in pixels of the image.
        classes: The class index of each object.
        ignored: Whether an object does not count, detected or not: groups and difficult objects.
    """

    corners: NumpyArray
    classes: NumpyArray
    ignored: NumpyArray


class _NamedBox(NamedTuple):
    name: str
    corners: tuple[float, float, float, float]
    ignored: bool


def find_boxes(path: Path, classes: Sequence[str]) -> list[tuple[Path, TrueBoxes]] | None:
    """Return the annotated images of a folder in COCO's or VOC's layout; None for other layouts.

    Args:
        path: The folder.
        classes: The task's class names; empty if it has none.

    Raises:
        InputError: An annotation is not valid, or its class is not in the task.
    """
    coco = read_coco(path)
    named: dict[Path, list[_NamedBox]] = {}
    if coco is not None:
        names = {category.id: category.name for category in coco.categories}
        named = {picture: [] for picture in coco.pictures.values()}
        for entry in coco.objects:
            left, top, width, height = entry.bbox
            box = (left, top, left + width, top + height)
            named[coco.pictures[entry.image_id]].append(
                _NamedBox(names[entry.category_id], box, bool(entry.iscrowd))
            )
        listed = list(names.values())
    elif (path / "Annotations").is_dir():
        pairs = find_pairs(path, (("JPEGImages", "Annotations"),), (".xml",))
        named = {picture: _read_voc(file) for picture, file in pairs if file is not None}
        listed = sorted({box.name for boxes in named.values() for box in boxes})
    else:
        return None
    if set(listed) & set(classes):  # ignore unused unknown categories
        used = {box.name for boxes in named.values() for box in boxes}
        listed = [name for name in listed if name in used]
    place = str(path if coco is None else coco.path)
    _, found = number_classes(listed, classes, f"'{place}'", "category")
    numbers = dict(zip(listed, found, strict=True))
    return [(picture, _stack_boxes(boxes, numbers)) for picture, boxes in named.items()]


def _stack_boxes(boxes: Sequence[_NamedBox], numbers: dict[str, int]) -> TrueBoxes:
    return TrueBoxes(
        np.asarray([box.corners for box in boxes], np.float64).reshape(-1, 4),
        np.asarray([numbers[box.name] for box in boxes], np.int64),
        np.asarray([box.ignored for box in boxes], bool),
    )


def _read_voc(path: Path) -> list[_NamedBox]:
    """Return the objects in a VOC file, which counts pixels from 1 and includes the last one."""
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314  # expat limits entities since 2.4.1
        boxes = []
        for entry in root.iter("object"):
            edges = (entry.findtext(f"bndbox/{edge}", "") for edge in _VOC_EDGES)
            left, top, right, bottom = map(float, edges)
            difficult = entry.findtext("difficult", "0").strip() == "1"
            name = entry.findtext("name", "").strip()
            boxes.append(_NamedBox(name, (left - 1, top - 1, right, bottom), difficult))
    except (OSError, ValueError, ElementTree.ParseError) as err:
        raise InputError(f"'{path}' is not a VOC annotation file: {err}") from err
    return boxes
