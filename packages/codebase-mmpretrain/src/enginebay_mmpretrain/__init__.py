"""Builds OpenMMLab's image classifiers by name or config: ``mmpretrain:resnet18_8xb32_in1k``."""

__version__ = "0.1.0"
