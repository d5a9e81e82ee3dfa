"""COCO annotation files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from enginebay.errors import InputError
from enginebay_vision.truth.files import find_only_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class CocoImage(msgspec.Struct, frozen=True):
    """An image."""

    id: int
    file_name: str


class CocoCategory(msgspec.Struct, frozen=True):
    """A class."""

    id: int
    name: str


class CocoObject(msgspec.Struct, frozen=True):
    """An object in an image.

    Attributes:
        bbox: Left, top, width and height, in pixels.
        iscrowd: 1 for a group of objects.
        area: The area of its outline in pixels; 0 if unknown.
        keypoints: x, y and 0 (unknown), 1 (hidden) or 2 (visible) for each point.
    """

    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    id: int = 0
    iscrowd: int = 0
    area: float = 0.0
    keypoints: tuple[float, ...] = ()


class _Document(msgspec.Struct, frozen=True):
    images: list[CocoImage]
    annotations: list[CocoObject]
    categories: list[CocoCategory]


class CocoFile(NamedTuple):
    """An annotation file.

    Attributes:
        path: The file.
        images: The path of each image by id.
        objects: All objects, each in one of the images and of one of the categories.
        categories: The categories in the order of their ids.
    """

    path: Path
    pictures: dict[int, Path]
    objects: list[CocoObject]
    categories: list[CocoCategory]


def read_coco(folder: Path) -> CocoFile | None:
    """Read the only ``.json`` file in a folder, or in one of its folders; None if there is none.

    Images are in the folder, in one of its folders, or next to the file.

    Raises:
        InputError: There are several files, a file is not in COCO's format, or an image is missing.
    """
    files = sorted([*folder.glob("*.json"), *folder.glob("*/*.json")])
    path = find_only_file(files, folder)
    if path is None:
        return None
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as err:
        raise InputError(f"'{path}' is not a COCO annotation file: {err}") from err
    if not document.images:
        raise InputError(f"'{path}' lists no images")
    pictures = {image.id: _find_image(image.file_name, path, folder) for image in document.images}
    categories = sorted(document.categories, key=lambda category: category.id)
    known = {category.id for category in categories}
    for entry in document.annotations:
        if entry.image_id not in pictures:
            raise InputError(
                f"'{path}' has an annotation of image {entry.image_id}, which it does not list"
            )
        if entry.category_id not in known:
            raise InputError(
                f"'{path}' has an annotation of category {entry.category_id}, "
                "which it does not list"
            )
        if min(entry.bbox[2:]) < 0:
            raise InputError(
                f"'{path}' has a box of {entry.bbox[2]:g}x{entry.bbox[3]:g} pixels, "
                f"annotation {entry.id}"
            )
    return CocoFile(path, pictures, document.annotations, categories)


def _find_image(name: str, path: Path, folder: Path) -> Path:
    for place in _list_folders(path, folder):
        if (place / name).is_file():
            return place / name
    raise InputError(f"'{path}' lists the image '{name}', which is not in '{folder}'")


def _list_folders(path: Path, folder: Path) -> Iterator[Path]:
    yield from (folder / "images", folder, path.parent)
    yield from sorted(place for place in folder.iterdir() if place.is_dir())
