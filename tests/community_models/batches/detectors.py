"""Detectors from ultralytics, by the files that describe them, and heads for other tasks."""

from __future__ import annotations

from typing import Any


def build(task: str, file: str) -> tuple[Any, Any]:
    """An untrained model by its task and its file, and a picture."""
    import torch
    from ultralytics.nn import tasks

    model = getattr(tasks, f"{task}Model")(f"{file}.yaml", verbose=False)
    return model, torch.rand(1, 3, 64, 64)


FILES = {
    "yolov5n": "Detection",
    "yolov8n": "Detection",
    "yolov8n-ghost": "Detection",
    "yolov9t": "Detection",
    "yolov10n": "Detection",
    "yolo11n": "Detection",
    "yolo11n-seg": "Segmentation",
    "yolo11n-pose": "Pose",
    "yolo11n-obb": "OBB",
    "yolo11n-cls": "Classification",
    "yolo12n": "Detection",
    "yolo26n": "Detection",
    "rtdetr-resnet50": "RTDETRDetection",
}

MODELS = {file: (lambda file=file, task=task: build(task, file)) for file, task in FILES.items()}
