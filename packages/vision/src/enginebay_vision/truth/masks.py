"""Finds images with annotated masks in COCO's format, and reads masks with pycocotools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay.environment import install_command
from enginebay.errors import InputError, MissingDependencyError, first_line
from enginebay_vision.truth.boxes import TrueBoxes, stack_coco_boxes
from enginebay_vision.truth.coco import read_coco_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray

    #: A mask as pycocotools stores it: ``size``, height and width, and ``counts``, bytes.
    CocoMask = dict[str, Any]

#: For each part of an object x and y of each point, in pixels of the image.
_Polygons = list[list[float]]


class TrueMasks(NamedTuple):
    """The annotated objects in an image, with masks; the other attributes are as in ``TrueBoxes``.

    Attributes:
        masks: The mask of each object in the image, run-length encoded.
    """

    corners: NumpyArray
    classes: NumpyArray
    ignored: NumpyArray
    masks: list[CocoMask]


class _RunLengths(msgspec.Struct, frozen=True):
    """The lengths of runs of pixels outside and inside of an object, in turn, column by column."""

    size: tuple[int, int]
    counts: str | list[int]


class _Annotation(msgspec.Struct, frozen=True):
    # Raw: lists of numbers in Python take ten times the memory of their text.
    segmentation: msgspec.Raw = msgspec.Raw(b"null")


class _Document(msgspec.Struct, frozen=True):
    annotations: list[_Annotation]


class AnnotatedMasks(NamedTuple):
    """The annotated objects in an image, whose masks are not read yet.

    Attributes:
        boxes: The boxes and classes of the objects.
        segmentations: For each object its name for messages, and its segmentation as JSON.
    """

    boxes: TrueBoxes
    segmentations: list[tuple[str, msgspec.Raw]]

    def read_masks(self, size: tuple[int, int]) -> TrueMasks:
        """Read the masks; ``size`` is the image's width and height in pixels.

        Raises:
            InputError: A mask does not fit the image.
        """
        masks = []
        for name, raw in self.segmentations:
            found = _decode(name, raw)
            read: Any = _read_run_lengths if isinstance(found, _RunLengths) else _read_polygons
            masks.append(read(name, found, size))
        return TrueMasks(*self.boxes, masks)


def import_pycocotools() -> Any:
    """Return the module ``pycocotools.mask``.

    Raises:
        MissingDependencyError: pycocotools is not installed.
    """
    try:
        from pycocotools import mask
    except ImportError as err:
        raise MissingDependencyError(
            f"annotated masks require pycocotools, which cannot be imported: {first_line(err)}",
            hint=install_command("enginebay-vision[masks]"),
        ) from err
    return mask


def find_annotated_masks(
    path: Path, classes: Sequence[str]
) -> list[tuple[Path, AnnotatedMasks]] | None:
    """Return each image file with its annotated masks, from a folder in COCO's layout.

    Args:
        path: The folder; for a folder in another layout, the result is None.
        classes: The task's class names; empty if the task has none.

    Raises:
        InputError: An annotation is not valid, has no mask, or has a class that the task does not
            have.
        MissingDependencyError: pycocotools is not installed.
    """
    coco = read_coco_file(path)
    if coco is None:
        return None
    import_pycocotools()
    document = msgspec.json.decode(coco.path.read_bytes(), type=_Document)
    found: dict[Path, list[tuple[str, msgspec.Raw]]] = {image: [] for image in coco.images.values()}
    for entry, annotation in zip(coco.objects, document.annotations, strict=True):
        name = f"'{coco.path}': annotation {entry.id}"
        _decode(name, annotation.segmentation)  # an error before any model runs
        found[coco.images[entry.image_id]].append((name, annotation.segmentation))
    return [
        (image, AnnotatedMasks(boxes, found[image]))
        for image, boxes in stack_coco_boxes(coco, classes)
    ]


def _decode(name: str, raw: msgspec.Raw) -> _Polygons | _RunLengths:
    """Return a segmentation; ``name`` is the annotation's for messages."""
    try:
        found = msgspec.json.decode(raw, type=_Polygons | _RunLengths | None)
    except msgspec.ValidationError as err:
        raise InputError(
            f"{name} has a segmentation that is neither polygons nor run lengths: {err}"
        ) from err
    if not found:
        raise InputError(
            f"{name} has no segmentation; the task expects a mask of each object",
            hint="use the task object-detection if the annotations have boxes only",
        )
    for polygon in [] if isinstance(found, _RunLengths) else found:
        if len(polygon) < 6 or len(polygon) % 2:
            raise InputError(
                f"{name} has a polygon of {len(polygon)} numbers; expected x and y of 3 points or "
                "more"
            )
    return found


def _read_polygons(name: str, polygons: _Polygons, size: tuple[int, int]) -> CocoMask:
    for polygon in polygons:
        for x, y in zip(polygon[::2], polygon[1::2], strict=True):
            # Annotators draw a bit beyond the edge; a point farther away is of another image.
            if not (abs(x - size[0] / 2) <= size[0] and abs(y - size[1] / 2) <= size[1]):
                raise InputError(
                    f"{name} has a point at {x:g}, {y:g}, but its image has {size[0]}x{size[1]} "
                    "pixels"
                )
    coco = import_pycocotools()
    mask: CocoMask = coco.merge(coco.frPyObjects(polygons, *size[::-1]))
    return mask


def _read_run_lengths(name: str, lengths: _RunLengths, size: tuple[int, int]) -> CocoMask:
    height, width = lengths.size
    if (width, height) != size:
        raise InputError(
            f"{name} has a mask of {width}x{height} pixels, but its image has {size[0]}x{size[1]}",
            hint="'size' is height and width, of the image as rotated by its EXIF data",
        )
    counts = lengths.counts if isinstance(lengths.counts, list) else _decompress(lengths.counts)
    # pycocotools does not check this: pixels after the last run would have random values.
    if not counts or min(counts) < 0 or sum(counts) != width * height:
        raise InputError(
            f"{name} has run lengths that are not those of a mask of {width}x{height} pixels"
        )
    mask: CocoMask = import_pycocotools().frPyObjects(
        {"size": [height, width], "counts": counts}, height, width
    )
    return mask


def _decompress(text: str) -> list[int]:
    """Return the run lengths in COCO's compressed text; empty for another text.

    A number is a character for each 5 bits, the lowest first: 48 plus the bits, plus 32 if another
    character follows. The highest bit is the sign. From the fourth number on, it is the difference
    to the length before the last one.
    """
    lengths: list[int] = []
    value = shift = 0
    for code in (ord(character) - 48 for character in text):
        if not 0 <= code < 64:
            return []
        value |= (code & 31) << shift
        shift += 5
        if code & 32:
            continue
        value -= (code & 16) << (shift - 4)  # the sign: two's complement
        lengths.append(value + (lengths[-2] if len(lengths) > 2 else 0))
        value = shift = 0
    return [] if shift else lengths
