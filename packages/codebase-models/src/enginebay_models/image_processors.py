"""Determines a transformers model's task (preprocessing and classes) from the image processor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from enginebay.authors.sources import read_task
from enginebay_models.records import Record, classify, crop, resize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PIL.Image import Image
    from torch import Tensor
    from transformers import BaseImageProcessor, PreTrainedConfig, PreTrainedModel

_Kernel: TypeAlias = Literal["nearest", "lanczos", "bilinear", "bicubic"]
#: Pillow's filters by number.
_KERNELS: dict[int, _Kernel] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
#: Detectors with a score for "no object"; the others score each class separately.
_WITH_NO_OBJECT = ("Detr", "TableTransformer", "Yolos")


def transformers_task(model: PreTrainedModel, name: str, image: Tensor | None) -> Record | None:
    """Return the image task of a model of transformers; None if the task is unknown.

    The function requires enginebay-vision, which runs the preprocessing of the task.

    Args:
        model: A model of transformers.
        name: The model's name or folder; a folder may contain the image processor's settings.
        image: The example input, ``1×C×H×W``; None if the input is not a single image.
    """
    kind = type(model).__name__
    classifies = kind.endswith("ForImageClassification")
    detects = kind.endswith("ForObjectDetection")
    if not (classifies or detects) or image is None or image.shape[1] != 3:
        return None
    spec = _image_input(model.config, name, *image.shape[2:], detects=detects)
    if spec is None:
        return None
    names = model.config.id2label or {}
    classes = tuple(str(names[number]) for number in sorted(names))
    if classifies:
        return classify(spec, classes)
    no_object = kind.removesuffix("ForObjectDetection") in _WITH_NO_OBJECT
    return {
        "type": "object-detection",
        "image": spec,
        "classes": list(classes),
        "boxes": "pred_boxes",
        "scores": "logits",
        "labels": "",
        "box_form": "cxcywh",
        "normalised": True,
        "activation": "softmax" if no_object else "sigmoid",
        "every_class": not no_object,
    }


def _image_input(
    config: PreTrainedConfig, name: str, height: int, width: int, *, detects: bool
) -> Record | None:
    """Return the preprocessing of the model's image processor, adapted to an image size.

    The result is a dict of the fields of an ``ImageInput``; None if the model has no image
    processor, or if these fields do not reproduce the pixels that the processor computes.
    """
    kind = _processor_class(config)
    if kind is None:
        return None
    try:
        settings = (
            kind.from_pretrained(name, local_files_only=True)
            if Path(name, "preprocessor_config.json").is_file()
            else kind()
        )
        changes, spec = _settings_for_size(settings, height, width, detects=detects)
        processor = kind(**{**settings.to_dict(), **changes})
        same = all(_has_same_result(processor, spec, image) for image in _make_test_images())
    except Exception:  # noqa: BLE001  # an unknown processor must not prevent a deployment
        return None
    return spec if same else None


def _processor_class(config: PreTrainedConfig) -> type[BaseImageProcessor] | None:
    """Return the model's image processor class that uses Pillow; None if there is none."""
    import transformers
    from transformers.models.auto import image_processing_auto

    known: Any = getattr(image_processing_auto, "IMAGE_PROCESSOR_MAPPING_NAMES", {})
    name = known.get(config.model_type, {}).get("pil")
    return getattr(transformers, name, None) if name else None


def _settings_for_size(
    settings: BaseImageProcessor, height: int, width: int, *, detects: bool
) -> tuple[dict[str, object], Record]:
    """Adapt an image processor to an image size.

    Returns:
        The changed settings of the processor, and a dict of the fields of an ``ImageInput``.
    """
    kernel = _KERNELS[int(settings.resample)]
    exact = {"height": height, "width": width}
    if detects:
        changes: Mapping[str, object] = {"size": exact, "do_pad": False}
        cut = None
        step = resize(height, width, interpolation=kernel)
    else:
        changes, step, cut = _settings_with_crop(settings, height, width, kernel)
    normal = settings.do_normalize
    spec = {
        "steps": [step] if cut is None else [step, cut],
        "channels": "BGR" if getattr(settings, "do_flip_channel_order", False) else "RGB",
        "scale": float(settings.rescale_factor) if settings.do_rescale else 1.0,
        "mean": [*map(float, settings.image_mean)] if normal else [0.0],
        "std": [*map(float, settings.image_std)] if normal else [1.0],
    }
    return {**changes, "crop_size": exact}, spec


def _settings_with_crop(
    settings: BaseImageProcessor, height: int, width: int, kernel: _Kernel
) -> tuple[Mapping[str, object], Record, Record | None]:
    """Adapt an image processor that may crop; the cropped share of the image stays the same.

    Returns:
        The changed settings of the processor; the resize step; and the crop step, or None.
    """
    crop_step = crop(height, width, rounding="down")
    size = _read_sides(settings.size)
    shortest, share = size.get("shortest_edge"), getattr(settings, "crop_pct", None)
    if settings.do_center_crop:
        cut = _read_sides(settings.crop_size)
        if not shortest:
            high, wide = (size[n] * s // cut[n] for n, s in (("height", height), ("width", width)))
            step = resize(high, wide, interpolation=kernel)
            return {"size": {"height": high, "width": wide}}, step, crop_step
        side = shortest * height // cut["height"]
        step = resize(side, side, fit="cover", interpolation=kernel)
        return {"size": {"shortest_edge": side}}, step, crop_step
    if shortest and share:
        changes = {"size": {"shortest_edge": height}}
        if height >= 384:  # such sizes are not cropped
            return changes, resize(height, width, interpolation=kernel), None
        side = int(height / share)
        return changes, resize(side, side, fit="cover", interpolation=kernel), crop_step
    exact = {"height": height, "width": width}
    return {"size": exact}, resize(height, width, interpolation=kernel), None


def _read_sides(size: object) -> dict[str, int]:
    """Convert a size in a processor's settings to a dict, such as ``{"shortest_edge": 256}``."""
    return size if isinstance(size, dict) else vars(size)


def _make_test_images() -> list[Image]:
    from PIL import Image

    noise = np.random.default_rng(0)
    sizes = ((301, 402, 3), (170, 133, 3))
    return [Image.fromarray(noise.integers(0, 256, size, np.uint8)) for size in sizes]


def _has_same_result(processor: BaseImageProcessor, spec: Record, image: Image) -> bool:
    """Return True if the preprocessing ``spec`` computes the same pixels as the processor.

    The 8-bit pixels before the normalisation may differ by 1.
    """
    expected = processor(image, return_tensors="np")["pixel_values"]
    (actual,) = read_task(classify(spec, ())).preprocess(image).values()
    step = abs(spec["scale"]) / min(map(abs, spec["std"]))
    return expected.shape == actual.shape and bool(np.abs(expected - actual).max() <= step * 1.01)
