"""Models of transformers, timm and torchvision, by their names: ``timm:resnet18``."""

__version__ = "0.1.0"
