"""What a model finds in a picture."""

from __future__ import annotations

import msgspec


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
