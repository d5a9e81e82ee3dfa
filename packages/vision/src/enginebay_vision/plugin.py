"""The hooks that this plugin implements: tasks, metrics and comparators."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

import enginebay as eb
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ComparatorRequest, MetricRequest, Task
    from enginebay_vision.class_maps import ClassMap
    from enginebay_vision.detections.comparator import Detections
    from enginebay_vision.metrics.image_metric import ImageMetric

#: The module and the class of each kind of task. By name: a class is imported when it is used.
_TASKS = {
    "depth-estimation": ("depth", "DepthEstimation"),
    "image-classification": ("classification", "ImageClassification"),
    "image-to-image": ("image_to_image", "ImageToImage"),
    "instance-segmentation": ("instances", "InstanceSegmentation"),
    "keypoint-detection": ("keypoints", "KeypointDetection"),
    "object-detection": ("detection", "ObjectDetection"),
    "semantic-segmentation": ("segmentation", "SemanticSegmentation"),
    "text-recognition": ("text", "TextRecognition"),
}


@eb.hookimpl
def tasks() -> Mapping[str, Callable[[Mapping[str, object]], Task]]:
    """Return, for each kind of task, the function that builds a task from its fields."""
    return {kind: partial(_convert_task, *names) for kind, names in _TASKS.items()}


@eb.hookimpl
def metrics() -> Mapping[str, Callable[[MetricRequest], ImageMetric]]:
    """Return the function that builds the metrics ``vision:NAME``."""
    return {"vision": _build_metric}


@eb.hookimpl
def comparators() -> Mapping[str, Callable[[ComparatorRequest], Detections | ClassMap]]:
    """Return the functions that build the comparators ``detections`` and ``class-map``."""
    return {"detections": _build_detections, "class-map": _build_class_map}


def _convert_task(module: str, name: str, record: Mapping[str, object]) -> Task:
    task_class = getattr(import_module(f"enginebay_vision.{module}"), name)
    try:
        task: Task = msgspec.convert(dict(record), task_class, strict=True)
    except msgspec.ValidationError as err:
        raise UsageError(str(err)) from err
    return task


def _build_metric(request: MetricRequest) -> ImageMetric:
    from enginebay_vision.metrics.registry import build_metric

    return build_metric(request.name)


def _build_detections(request: ComparatorRequest) -> Detections:
    from enginebay_vision.detections.comparator import Detections

    return Detections(request.argument)


def _build_class_map(request: ComparatorRequest) -> ClassMap:
    from enginebay_vision.class_maps import ClassMap

    return ClassMap(request.argument)
