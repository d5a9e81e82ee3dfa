"""Builds models of transformers, timm and torchvision by name, such as ``timm:resnet18``."""

__version__ = "0.1.0"
