"""Reads the masks of COCO annotation files, with pycocotools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from enginebay.environment import install_command
from enginebay.errors import InputError, MissingDependencyError, first_line

if TYPE_CHECKING:
    from enginebay_vision.truth.coco import CocoFile


class _RunLengths(msgspec.Struct, frozen=True):
    """The lengths of runs of pixels outside and inside of an object, in turn, column by column."""

    size: tuple[int, int]
    counts: str | list[int]


#: Polygons: for each part of an object x and y of each point, in pixels of the image.
_Segmentation = list[list[float]] | _RunLengths | None


class _Annotation(msgspec.Struct, frozen=True):
    # Raw: lists of numbers in Python take ten times the memory of their text.
    segmentation: msgspec.Raw = msgspec.Raw(b"null")


class _Document(msgspec.Struct, frozen=True):
    annotations: list[_Annotation]


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


def read_coco_masks(coco: CocoFile) -> list[AnnotatedMask]:
    """Return the mask of each object of a COCO file.

    Raises:
        InputError: An object has no mask, or its mask is not valid.
        MissingDependencyError: pycocotools is not installed.
    """
    import_pycocotools()
    document = msgspec.json.decode(coco.path.read_bytes(), type=_Document)
    masks = []
    for entry, annotation in zip(coco.objects, document.annotations, strict=True):
        name = f"'{coco.path}': annotation {entry.id}"
        masks.append(AnnotatedMask(name, annotation.segmentation))
        masks[-1].decode()  # errors before any model runs
    return masks


class AnnotatedMask(NamedTuple):
    """The mask of an annotated object: its name for messages, and its segmentation as JSON."""

    name: str
    segmentation: msgspec.Raw

    def decode(self) -> Any:
        """Return the polygons, lists of x and y in turn, or the run lengths."""
        try:
            found: Any = msgspec.json.decode(self.segmentation, type=_Segmentation)
        except msgspec.ValidationError as err:
            raise InputError(
                f"{self.name} has a segmentation that is neither polygons nor run lengths: {err}"
            ) from err
        if not found:
            raise InputError(
                f"{self.name} has no segmentation; the task expects a mask of each object",
                hint="use the task object-detection if the annotations have boxes only",
            )
        for polygon in [] if isinstance(found, _RunLengths) else found:
            if len(polygon) < 6 or len(polygon) % 2:
                raise InputError(
                    f"{self.name} has a polygon of {len(polygon)} numbers; expected x and y of 3 "
                    "points or more"
                )
        return found

    def encode(self, size: tuple[int, int]) -> dict[str, Any]:
        """Return the mask as pycocotools encodes it; ``size`` is the image's width and height.

        Raises:
            InputError: The mask does not fit the image.
        """
        coco, (width, height), found = import_pycocotools(), size, self.decode()
        if not isinstance(found, _RunLengths):
            points = np.concatenate([np.reshape(polygon, (-1, 2)) for polygon in found])
            # Annotators draw a bit beyond the edge; a point farther away is of another image.
            far = points[(abs(points / size - 0.5) > 1).any(1)]
            if len(far):
                raise InputError(
                    f"{self.name} has a point at {far[0, 0]:g}, {far[0, 1]:g}, but its image has "
                    f"{width}x{height} pixels"
                )
            polygons: dict[str, Any] = coco.merge(coco.frPyObjects(found, height, width))
            return polygons
        if found.size != (height, width):
            raise InputError(
                f"{self.name} has a mask of {found.size[1]}x{found.size[0]} pixels, but its image "
                f"has {width}x{height}",
                hint="'size' is height and width, of the image as rotated by its EXIF data",
            )
        counts = found.counts if isinstance(found.counts, list) else _decompress(found.counts)
        # pycocotools 2.0.11 does not check them.
        if min(counts, default=-1) < 0 or sum(counts) != width * height:
            raise InputError(
                f"{self.name} has run lengths that are not those of a mask of {width}x{height} "
                "pixels"
            )
        lengths = {"size": [height, width], "counts": counts}
        mask: dict[str, Any] = coco.frPyObjects(lengths, height, width)
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
