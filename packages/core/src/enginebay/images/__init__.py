"""What an image model is for: from a picture to its input, and from its outputs to names.

A task is plain data, which a manifest keeps. Pillow is imported where a picture is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.images.classification import ImageClassification, RankedClass
    from enginebay.images.detection import Box, ObjectDetection
    from enginebay.images.drawing import check_drawing, draw
    from enginebay.images.fitting import fit_task
    from enginebay.images.image_input import ImageInput
    from enginebay.images.opening import open_image, pillow
    from enginebay.images.reading import read_task, task_record
    from enginebay.images.steps import Crop, Resize
    from enginebay.images.task import Task

__all__ = [
    "Box",
    "Crop",
    "ImageClassification",
    "ImageInput",
    "ObjectDetection",
    "RankedClass",
    "Resize",
    "Task",
    "check_drawing",
    "draw",
    "fit_task",
    "open_image",
    "pillow",
    "read_task",
    "task_record",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Box": "images.detection",
        "Crop": "images.steps",
        "ImageClassification": "images.classification",
        "ImageInput": "images.image_input",
        "ObjectDetection": "images.detection",
        "RankedClass": "images.classification",
        "Resize": "images.steps",
        "Task": "images.task",
        "check_drawing": "images.drawing",
        "draw": "images.drawing",
        "fit_task": "images.fitting",
        "open_image": "images.opening",
        "pillow": "images.opening",
        "read_task": "images.reading",
        "task_record": "images.reading",
    },
)
