"""True boxes of pictures: as COCO has them, or VOC."""

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
    """The objects in a picture.

    Attributes:
        corners: ``N×4``: left, top, right, bottom, in pixels of the picture.
        classes: The number of each one's class.
        ignored: True for objects that do not count, found or not: groups, and difficult ones.
    """

    corners: NumpyArray
    classes: NumpyArray
    ignored: NumpyArray


class _NamedBox(NamedTuple):
    name: str
    corners: tuple[float, float, float, float]
    ignored: bool


def find_boxes(path: Path, classes: Sequence[str]) -> list[tuple[Path, TrueBoxes]] | None:
    """The annotated pictures of a folder in COCO's or VOC's layout; None in any other layout.

    Args:
        path: The folder.
        classes: The task's classes; empty if it names none.

    Raises:
        InputError: An annotation is none, or of a class that the task does not name.
    """
    coco = read_coco(path)
    named: dict[Path, list[_NamedBox]] = {}
    if coco is not None:
        names = {category.id: category.name for category in coco.categories}
        named = {picture: [] for picture in coco.pictures.values()}
        for one in coco.objects:
            left, top, width, height = one.bbox
            box = (left, top, left + width, top + height)
            named[coco.pictures[one.image_id]].append(
                _NamedBox(names[one.category_id], box, bool(one.iscrowd))
            )
        listed = list(names.values())
    elif (path / "Annotations").is_dir():
        pairs = find_pairs(path, (("JPEGImages", "Annotations"),), (".xml",))
        named = {picture: _voc(file) for picture, file in pairs if file is not None}
        listed = sorted({box.name for boxes in named.values() for box in boxes})
    else:
        return None
    if set(listed) & set(classes):  # a category that no picture has may be unknown
        used = {box.name for boxes in named.values() for box in boxes}
        listed = [name for name in listed if name in used]
    place = str(path if coco is None else coco.path)
    _, found = number_classes(listed, classes, f"'{place}'", "category")
    numbers = dict(zip(listed, found, strict=True))
    return [(picture, _stacked(boxes, numbers)) for picture, boxes in named.items()]


def _stacked(boxes: Sequence[_NamedBox], numbers: dict[str, int]) -> TrueBoxes:
    return TrueBoxes(
        np.asarray([box.corners for box in boxes], np.float64).reshape(-1, 4),
        np.asarray([numbers[box.name] for box in boxes], np.int64),
        np.asarray([box.ignored for box in boxes], bool),
    )


def _voc(path: Path) -> list[_NamedBox]:
    """The objects in a file of VOC, whose pixels count from 1 and whose boxes end with the last."""
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314  # expat limits entities since 2.4.1
        found = []
        for one in root.iter("object"):
            edges = (one.findtext(f"bndbox/{edge}", "") for edge in _VOC_EDGES)
            left, top, right, bottom = map(float, edges)
            difficult = one.findtext("difficult", "0").strip() == "1"
            name = one.findtext("name", "").strip()
            found.append(_NamedBox(name, (left - 1, top - 1, right, bottom), difficult))
    except (OSError, ValueError, ElementTree.ParseError) as err:
        raise InputError(f"'{path}' holds no boxes as VOC writes them: {err}") from err
    return found
