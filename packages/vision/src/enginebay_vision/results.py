"""The types of the results to which tasks convert a model's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay.authors.arrays import NumpyArray

T = TypeVar("T")


class FoundMap(list[T]):
    """A list of results that also has an array with a value for each pixel.

    Attributes:
        array: The values of the pixels, ``H×W`` or ``H×W×3``.
    """

    def __init__(self, rows: Iterable[T], array: NumpyArray) -> None:
        super().__init__(rows)
        self.array = array


class RankedClass(msgspec.Struct, frozen=True):
    """One of the most probable classes of an image.

    Attributes:
        name: The class name; the class index as text if the task has no class names.
        index: The class index.
        probability: The probability of the class, from 0 to 1.
    """

    name: str
    index: int
    probability: float


class Box(msgspec.Struct, frozen=True):
    """A detected object, with coordinates in pixels of the image.

    Attributes:
        name: The class name; the class index as text if the task has no class names.
        index: The class index.
        score: The score, from 0 to 1.
        left: The x coordinate of the box's left edge; 0 is the left edge of the image.
        top: The y coordinate of the box's upper edge; 0 is the upper edge of the image.
        right: The x coordinate of the box's right edge.
        bottom: The y coordinate of the box's lower edge.
    """

    name: str
    index: int
    score: float
    left: float
    top: float
    right: float
    bottom: float


class Instance(Box, frozen=True):
    """A detected object with a mask: the fields of a ``Box``, and the size of the mask.

    Attributes:
        area: The number of pixels in the object's mask.
    """

    area: int


class InstanceMask(NamedTuple):
    """The pixels of one object, in a rectangle outside of which the object has none.

    Attributes:
        left: The column of the image at which the rectangle begins.
        top: The row of the image at which the rectangle begins.
        pixels: ``h×w bool``: True for each pixel of the object.
    """

    left: int
    top: int
    pixels: NumpyArray

    def select(self, image: NumpyArray) -> NumpyArray:
        """Return the part of an array ``H×W`` of the image that the rectangle covers, as a view."""
        height, width = self.pixels.shape
        return image[self.top : self.top + height, self.left : self.left + width]


class FoundInstances(list[Instance]):
    """A list of instances that also has the mask of each instance.

    Attributes:
        masks: The mask of each instance. Only rectangles of the image, because 100 masks of a
            whole photo of 4000×3000 pixels take 1.2 GB.
        size: The image's width and height in pixels.

    Example:
        >>> mask = InstanceMask(left=1, top=0, pixels=np.ones((1, 2), bool))
        >>> cat = Instance("cat", 0, 0.9, left=1, top=0, right=3, bottom=1, area=2)
        >>> FoundInstances([cat], [mask], size=(4, 2)).array.astype(int)
        array([[[0, 1, 1, 0],
                [0, 0, 0, 0]]])
    """

    def __init__(
        self, rows: Iterable[Instance], masks: Iterable[InstanceMask], size: tuple[int, int]
    ) -> None:
        super().__init__(rows)
        self.masks = tuple(masks)
        self.size = size

    @property
    def array(self) -> NumpyArray:
        """The masks of the whole image, ``n×H×W bool``; each access allocates ``n·H·W`` bytes."""
        whole = np.zeros((len(self.masks), *self.size[::-1]), bool)
        for mask, image in zip(self.masks, whole, strict=True):
            mask.select(image)[:] = mask.pixels
        return whole


class Segment(msgspec.Struct, frozen=True):
    """A class in a segmented image, and the share of pixels with this class.

    Attributes:
        name: The class name; the class index as text if the task has no class names.
        index: The class index.
        share: The share of pixels with this class, from 0 to 1; cropped pixels are not counted.
    """

    name: str
    index: int
    share: float


class MadePicture(msgspec.Struct, frozen=True):
    """The size of an image that a model generated.

    Attributes:
        width: The width in pixels.
        height: The height in pixels.
    """

    width: int
    height: int


class DepthRange(msgspec.Struct, frozen=True):
    """The smallest, largest and mean depth in an image, in the unit of the model's output.

    Attributes:
        low: The smallest depth.
        high: The largest depth.
        mean: The mean depth of all pixels.
    """

    low: float
    high: float
    mean: float


class Keypoint(msgspec.Struct, frozen=True):
    """A keypoint of a body, such as an elbow, with coordinates in pixels of the image.

    Attributes:
        name: The name of the point; the index as text if the task has no class names.
        index: The index of the point in the model's order.
        score: The maximum of the point's heatmap; for most models at most 1.
        x: The x coordinate; 0 is the left edge of the image.
        y: The y coordinate; 0 is the upper edge of the image.
    """

    name: str
    index: int
    score: float
    x: float
    y: float


class Text(msgspec.Struct, frozen=True):
    """A line of text that a model recognised.

    Attributes:
        text: The characters.
        score: The mean probability of the characters; 0 for an empty text.
    """

    text: str
    score: float
