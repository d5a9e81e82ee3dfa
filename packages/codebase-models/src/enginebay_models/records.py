"""Creates dicts of the fields of image tasks, which enginebay-vision converts to tasks."""

from __future__ import annotations

from typing import Any, TypeAlias

#: A task, or a part of one.
Record: TypeAlias = dict[str, Any]


def resize(height: int, width: int, **options: object) -> Record:
    """Return a dict of the fields of a preprocessing step that resizes an image.

    Example:
        >>> resize(8, 6, fit="cover")
        {'type': 'resize', 'height': 8, 'width': 6, 'fit': 'cover'}
    """
    return {"type": "resize", "height": height, "width": width, **options}


def crop(height: int, width: int, **options: object) -> Record:
    """Return a dict of the fields of a preprocessing step that crops or pads an image."""
    return {"type": "crop", "height": height, "width": width, **options}


def classify(image: Record, classes: tuple[str, ...]) -> Record:
    """Return a dict of the fields of an image classifier's task."""
    return {"type": "image-classification", "image": image, "classes": list(classes)}
