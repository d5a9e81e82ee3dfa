"""Builds OpenMMLab's pose estimators by name: ``mmpose:rtmpose-t_8xb256-420e_coco-256x192``."""

__version__ = "0.1.0"
