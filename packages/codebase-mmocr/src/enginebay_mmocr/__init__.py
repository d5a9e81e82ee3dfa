"""Builds OpenMMLab's text detectors and recognisers by name: ``mmocr:crnn_mini-vgg_5e_mj``."""

__version__ = "0.1.0"
