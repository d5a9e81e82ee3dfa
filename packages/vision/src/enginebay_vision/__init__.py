"""Pictures for Enginebay: from a picture to a model's input, and from its outputs to names.

::

    import enginebay_vision as vision

    task = vision.ImageClassification(image=vision.ImageInput(steps=(vision.Resize(32, 32),)))

Importing this module imports nothing else: every name below is fetched when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import lazy_names

if TYPE_CHECKING:
    from enginebay_vision.classification import ImageClassification
    from enginebay_vision.detection import ObjectDetection
    from enginebay_vision.found import Box, RankedClass
    from enginebay_vision.image_input import ImageInput
    from enginebay_vision.steps import Crop, Resize

__version__ = "0.1.0"

__all__ = [
    "Box",
    "Crop",
    "ImageClassification",
    "ImageInput",
    "ObjectDetection",
    "RankedClass",
    "Resize",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Box": "found",
        "Crop": "steps",
        "ImageClassification": "classification",
        "ImageInput": "image_input",
        "ObjectDetection": "detection",
        "RankedClass": "found",
        "Resize": "steps",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
