"""What a model finds in a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay.authors import NumpyArray

T = TypeVar("T")


class FoundMap(list[T]):
    """What was found in a picture, with a value for each of its pixels.

    The list has the rows that a table shows of the values.

    Attributes:
        array: The values, ``H×W`` or ``H×W×3``.
    """

    def __init__(self, rows: Iterable[T], array: NumpyArray) -> None:
        super().__init__(rows)
        self.array = array


class RankedClass(msgspec.Struct, frozen=True):
    """A class that a picture may belong to.

    Attributes:
        name: Its name; its number where the task has no names.
        index: Its number.
        probability: From 0 to 1.
    """

    name: str
    index: int
    probability: float


class Box(msgspec.Struct, frozen=True):
    """An object that was found, by the pixels of the picture.

    Attributes:
        name: Its class's name; the class's number where the task has no names.
        index: The number of its class.
        score: From 0 to 1.
        left: The box's left edge, in pixels from the picture's left edge.
        top: Its upper edge, from the picture's upper edge.
        right: Its right edge.
        bottom: Its lower edge.
    """

    name: str
    index: int
    score: float
    left: float
    top: float
    right: float
    bottom: float


class Segment(msgspec.Struct, frozen=True):
    """A class that covers a part of a picture.

    Attributes:
        name: Its name; its number where the task has no names.
        index: Its number.
        share: Of the pixels that the model saw, from 0 to 1.
    """

    name: str
    index: int
    share: float


class MadePicture(msgspec.Struct, frozen=True):
    """A picture that a model made.

    Attributes:
        width: In pixels.
        height: The same.
    """

    width: int
    height: int


class DepthRange(msgspec.Struct, frozen=True):
    """The depths in a picture, in the output's unit.

    Attributes:
        low: The smallest number.
        high: The largest one.
        mean: Of all pixels.
    """

    low: float
    high: float
    mean: float


class Keypoint(msgspec.Struct, frozen=True):
    """A point of a body or a thing, by the pixels of the picture.

    Attributes:
        name: Its name; its number where the task has no names.
        index: Its number.
        score: How sure the model is; 1 is the most for most models.
        x: From the picture's left edge.
        y: From its upper edge.
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
