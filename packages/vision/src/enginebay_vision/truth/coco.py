"""Reads COCO annotation files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from enginebay.errors import InputError
from enginebay_vision.truth.files import find_only_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class CocoImage(msgspec.Struct, frozen=True):
    """An image in a COCO file."""

    id: int
    file_name: str


class CocoCategory(msgspec.Struct, frozen=True):
    """A class of objects in a COCO file."""

    id: int
    name: str


class CocoObject(msgspec.Struct, frozen=True):
    """An annotated object in an image of a COCO file.

    Attributes:
        bbox: Left, top, width and height of the object's box, in pixels.
        iscrowd: 1 if the box contains a group of objects, else 0.
        area: The number of pixels in the object's outline; 0 if unknown.
        keypoints: x, y and visibility of each point; visibility is 0 (unknown), 1 (hidden) or 2
            (visible).
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
    """The checked contents of a COCO annotation file.

    Attributes:
        path: The annotation file.
        images: The path of each image file, by the image's id.
        objects: All annotated objects; each refers to an image and a category that the file lists.
        categories: The categories in the order of their ids.
    """

    path: Path
    images: dict[int, Path]
    objects: list[CocoObject]
    categories: list[CocoCategory]


def read_coco_file(folder: Path) -> CocoFile | None:
    """Read the only ``.json`` file in a folder or its subfolders; return None without such a file.

    The images may be in the folder, in its subfolders, or next to the file.

    Raises:
        InputError: There are several files, the file is not in COCO's format, or an image is
            missing.
    """
    files = sorted([*folder.glob("*.json"), *folder.glob("*/*.json")])  # such as annotations/*.json
    path = find_only_file(files, folder)
    if path is None:
        return None
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as err:
        raise InputError(f"'{path}' is not a COCO annotation file: {err}") from err
    if not document.images:
        raise InputError(f"'{path}' lists no images")
    images = {image.id: _find_image(image.file_name, path, folder) for image in document.images}
    categories = sorted(document.categories, key=lambda category: category.id)
    known = {category.id for category in categories}
    for entry in document.annotations:
        if entry.image_id not in images:
            raise InputError(
                f"'{path}' has an annotation of image {entry.image_id}, but does not list the image"
            )
        if entry.category_id not in known:
            raise InputError(
                f"'{path}' has an annotation of category {entry.category_id}, but does not list "
                "the category"
            )
        if min(entry.bbox[2:]) < 0:
            raise InputError(
                f"'{path}' has a box with a negative size, {entry.bbox[2]:g}x{entry.bbox[3]:g} "
                f"pixels, in the annotation with id {entry.id}"
            )
    return CocoFile(path, images, document.annotations, categories)


def _find_image(name: str, path: Path, folder: Path) -> Path:
    for parent in _list_image_folders(path, folder):
        if (parent / name).is_file():
            return parent / name
    raise InputError(f"'{path}' lists the image '{name}', which is not in '{folder}'")


def _list_image_folders(path: Path, folder: Path) -> Iterator[Path]:
    yield from (folder / "images", folder, path.parent)
    # COCO itself has folders such as val2017 beside the folder of annotations.
    yield from sorted(entry for entry in folder.iterdir() if entry.is_dir())
