"""Checks a model's config, and reads and sets the size of its images."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelSourceError
from enginebay_mmpretrain.library import MMPRETRAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mmengine.config import Config


def check_head(config: Config, name: str) -> None:
    """Check that a classifier has a head.

    Raises:
        ModelSourceError: The model of the config is a backbone.
    """
    if config.model.get("type") == "ImageClassifier" and not config.model.get("head"):
        raise ModelSourceError(f"'{name}' is a backbone without a head", hint=MMPRETRAIN.expected)


def read_image_size(config: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return the channels, height and width of a config's test images; None if not specified.

    Example:
        >>> crop = [{"type": "ResizeEdge", "scale": 256}, {"type": "CenterCrop", "crop_size": 224}]
        >>> read_image_size({"model": {"backbone": {}}, "test_pipeline": crop})
        (3, 224, 224)
    """
    backbone = config["model"].get("backbone", {})
    size = _read_crop_size(config.get("test_pipeline") or ()) or _parse_pair(
        backbone.get("img_size")
    )
    if size is None:
        return None
    width, height = size
    return backbone.get("in_channels", 3), height, width


def _read_crop_size(pipeline: Iterable[Mapping[str, Any]]) -> tuple[int, int] | None:
    """Return the width and height of the last ``Resize`` or crop transform; None if unknown."""
    size = None
    for transform in pipeline:
        kind = transform.get("type")
        if getattr(kind, "__name__", kind) == "Resize":
            size = _parse_pair(transform.get("scale"))
        elif "crop_size" in transform:
            size = _parse_pair(transform["crop_size"])
    return size


def _parse_pair(size: int | Sequence[int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    width, height = (size, size) if isinstance(size, int) else size
    return int(width), int(height)


def set_image_size(config: Config, size: tuple[int, int, int]) -> None:
    """Set the image size and channels in the backbone's config, if the backbone accepts them.

    Args:
        config: The config, which is changed.
        size: Channels, height and width of the image.
    """
    backbone = config.model.get("backbone", {})
    kind = backbone.get("type")
    if not isinstance(kind, type):
        kind = MMPRETRAIN.registry("MODELS").get(str(kind))
    parameters = inspect.signature(kind).parameters if kind else {}
    channels, height, width = size
    if "img_size" in parameters:
        backbone["img_size"] = height if height == width else (height, width)
    if "in_channels" in parameters:
        backbone["in_channels"] = channels
