"""mmdet, the library of the models in this package."""

from __future__ import annotations

from enginebay_openmmlab import Library

MMDET = Library(
    name="mmdet",
    fork="onedl-mmdetection",
    base="mmdet.models.detectors.BaseDetector",
    noun="detector",
    example="model = dict(type='RetinaNet', backbone=…, bbox_head=…)",
)
