"""The hooks that Enginebay calls: tasks, their metrics, and the comparator ``detections``."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

import enginebay as eb
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ComparatorRequest, MetricRequest, Task

#: The module and the class of each kind of task.
_TASKS = {
    "depth-estimation": ("depth", "DepthEstimation"),
    "image-classification": ("classification", "ImageClassification"),
    "image-to-image": ("image_to_image", "ImageToImage"),
    "keypoint-detection": ("keypoints", "KeypointDetection"),
    "object-detection": ("detection", "ObjectDetection"),
    "semantic-segmentation": ("segmentation", "SemanticSegmentation"),
    "text-recognition": ("text", "TextRecognition"),
}


@eb.hookimpl
def tasks() -> Mapping[str, Callable[[Mapping[str, Any]], Task]]:
    """Return the image tasks by kind."""
    return {kind: partial(_convert_task, *place) for kind, place in _TASKS.items()}


@eb.hookimpl
def metrics() -> Mapping[str, Callable[[MetricRequest], Any]]:
    """Return the metrics ``vision:NAME``."""
    return {"vision": _build_metric}


@eb.hookimpl
def comparators() -> Mapping[str, Callable[[ComparatorRequest], Any]]:
    """Return the comparator of boxes with scores and labels."""
    return {"detections": _build_comparator}


def _convert_task(module: str, name: str, record: Mapping[str, Any]) -> Task:
    kind = getattr(import_module(f"enginebay_vision.{module}"), name)
    try:
        task: Task = msgspec.convert(dict(record), kind, strict=True)
    except msgspec.ValidationError as err:
        raise UsageError(str(err)) from err
    return task


def _build_metric(request: MetricRequest) -> Any:
    from enginebay_vision.metrics.registry import build_metric

    return build_metric(request.name)


def _build_comparator(request: ComparatorRequest) -> Any:
    from enginebay_vision.detections.comparator import Detections

    return Detections(request.argument)
