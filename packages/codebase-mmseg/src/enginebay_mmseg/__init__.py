"""Builds OpenMMLab's segmenters by name: ``mmseg:stdc1_4xb12-80k_cityscapes-512x1024``."""

__version__ = "0.1.0"
