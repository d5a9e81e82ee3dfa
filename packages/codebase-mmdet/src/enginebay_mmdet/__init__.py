"""Builds OpenMMLab's object detectors by name or config: ``mmdet:retinanet_r50_fpn_1x_coco``."""

__version__ = "0.1.0"
