"""Results of tasks: the records that a model's outputs become."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay.authors import NumpyArray

T = TypeVar("T")


class FoundMap(list[T]):
    """A list of result rows, with an array of a value for each pixel.

    Attributes:
        array: The values, ``H×W`` or ``H×W×3``.
    """

    def __init__(self, rows: Iterable[T], array: NumpyArray) -> None:
        super().__init__(rows)
        self.array = array


class RankedClass(msgspec.Struct, frozen=True):
    """A class that an image may belong to.

    Attributes:
        name: The name; the index if the task has no names.
        index: The index.
        probability: The probability, from 0 to 1.
    """

    name: str
    index: int
    probability: float


class Box(msgspec.Struct, frozen=True):
    """A detected object, in pixels of the image.

    Attributes:
        name: The class name; the class index if the task has no names.
        index: The class index.
        score: The score, from 0 to 1.
        left: The left edge of the box, in pixels from the left edge of the image.
        top: The upper edge, from the upper edge of the image.
        right: The right edge.
        bottom: The lower edge.
    """

    name: str
    index: int
    score: float
    left: float
    top: float
    right: float
    bottom: float


class Segment(msgspec.Struct, frozen=True):
    """A class in a segmented image.

    Attributes:
        name: The name; the index if the task has no names.
        index: The index.
        share: The share of the pixels that the model saw, from 0 to 1.
    """

    name: str
    index: int
    share: float


class MadePicture(msgspec.Struct, frozen=True):
    """An image that a model generated.

    Attributes:
        width: The width in pixels.
        height: The height in pixels.
    """

    width: int
    height: int


class DepthRange(msgspec.Struct, frozen=True):
    """The depths in an image, in the output's unit.

    Attributes:
        low: The smallest depth.
        high: The largest depth.
        mean: The mean depth of all pixels.
    """

    low: float
    high: float
    mean: float


class Keypoint(msgspec.Struct, frozen=True):
    """A keypoint of a body or an object, in pixels of the image.

    Attributes:
        name: The name; the index if the task has no names.
        index: The index.
        score: The confidence; for most models at most 1.
        x: The distance from the left edge of the image.
        y: The distance from the upper edge.
    """

    name: str
    index: int
    score: float
    x: float
    y: float


class Text(msgspec.Struct, frozen=True):
    """A line of text.

    Attributes:
        text: The characters.
        score: The mean probability of its characters; 0 for an empty text.
    """

    text: str
    score: float
