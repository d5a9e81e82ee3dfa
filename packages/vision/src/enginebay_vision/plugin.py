"""What Enginebay finds here: two kinds of task, and the comparator ``detections``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

import enginebay as eb
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ComparatorRequest, Task


@eb.hookimpl
def tasks() -> Mapping[str, Callable[[Mapping[str, Any]], Task]]:
    """The tasks of pictures, by kind."""
    return {"image-classification": _classification, "object-detection": _detection}


@eb.hookimpl
def comparators() -> Mapping[str, Callable[[ComparatorRequest], Any]]:
    """The comparator of boxes with scores and labels."""
    return {"detections": _detections}


def _classification(record: Mapping[str, Any]) -> Task:
    from enginebay_vision.classification import ImageClassification

    return _read(record, ImageClassification)


def _detection(record: Mapping[str, Any]) -> Task:
    from enginebay_vision.detection import ObjectDetection

    return _read(record, ObjectDetection)


def _read(record: Mapping[str, Any], kind: type[Any]) -> Task:
    try:
        read: Task = msgspec.convert(dict(record), kind, strict=True)
    except msgspec.ValidationError as err:
        raise UsageError(str(err)) from err
    return read


def _detections(request: ComparatorRequest) -> Any:
    from enginebay_vision.detections.comparator import Detections

    return Detections(request.argument)
