"""Determines the tasks (preprocessing and classes) of timm's and torchvision's classifiers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay_models.records import Record, classify, crop, resize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from torch import nn
    from torchvision.models import WeightsEnum

#: The filters that a task supports.
KERNELS = ("nearest", "bilinear", "bicubic", "lanczos")


def timm_task(data: ModuleType, model: nn.Module, size: tuple[int, int, int]) -> Record | None:
    """Return the image task of a timm model; None if the model is not a supported classifier.

    Args:
        data: The module ``timm.data``.
        model: A model of timm.
        size: Channels, height and width of the model's input.
    """
    channels, height, width = size
    config = data.resolve_data_config({"input_size": size}, model=model)
    count = getattr(model, "num_classes", 0)  # feature extractors have none
    if channels != 3 or not count or config["interpolation"] not in KERNELS:
        return None
    subset = data.infer_imagenet_subset(model)
    image = {
        "steps": _timm_steps(config, height, width),
        "mean": list(config["mean"]),
        "std": list(config["std"]),
    }
    return classify(image, tuple(data.ImageNetInfo(subset).label_descriptions()) if subset else ())


def _timm_steps(config: Mapping[str, Any], height: int, width: int) -> list[Record]:
    """Return a task's preprocessing steps that compute timm's ``transforms_imagenet_eval``."""
    before = [math.floor(side / config["crop_pct"]) for side in (height, width)]
    options: dict[str, Any] = {"interpolation": config["interpolation"]}
    fill = [0, 0, 0]
    if config["crop_mode"] == "border":
        options |= {"fit": "contain", "rounding": "nearest"}
        fill = [round(255 * value) for value in config["mean"]]
    elif config["crop_mode"] != "squash":
        # timm resizes with torchvision's Resize, which rounds down, only to square sizes.
        options |= {"fit": "cover", "rounding": "down" if height == width else "nearest"}
    return [resize(*before, **options), crop(height, width, fill=fill)]


def torchvision_task(
    weights: WeightsEnum, arguments: Mapping[str, Any], size: tuple[int, int, int]
) -> Record | None:
    """Return the image task of a torchvision model; None if the model does not classify images.

    Args:
        weights: The weights, whose transforms define the preprocessing.
        arguments: The model's keyword arguments.
        size: Channels, height and width of the model's input.
    """
    transforms = weights.transforms()
    if type(transforms).__name__ != "ImageClassification" or size[0] != 3:
        return None
    _, height, width = size
    (cut,), (side,) = transforms.crop_size, transforms.resize_size
    names: Sequence[str] = weights.meta.get("categories", ())
    count = arguments.get("num_classes", len(names))
    kernel = transforms.interpolation.value
    high, wide = height * side // cut, width * side // cut
    image = {
        "steps": [resize(high, wide, fit="cover", interpolation=kernel), crop(height, width)],
        "mean": list(transforms.mean),
        "std": list(transforms.std),
    }
    return classify(image, tuple(names) if count == len(names) else ())
