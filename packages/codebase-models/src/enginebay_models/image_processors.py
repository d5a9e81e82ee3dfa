"""The tasks of transformers' models of pictures, from their image processors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from enginebay.authors import read_task
from enginebay_models.records import Record, classify, crop, resize

if TYPE_CHECKING:
    from PIL.Image import Image

#: Pillow's numbers of its kernels.
_KERNELS: dict[int, Literal["nearest", "lanczos", "bilinear", "bicubic"]] = {
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
}
#: Detectors whose scores have an entry for "no object"; the others score each class by itself.
_WITH_NO_OBJECT = ("Detr", "TableTransformer", "Yolos")


def transformers_task(model: Any, name: str, image: Any) -> Record | None:
    """Return the task of a model of transformers'; None where nothing here says it.

    It takes enginebay-vision to find out, which makes inputs by the task.

    Args:
        model: The model.
        name: What the user wrote: a folder may have the processor's settings.
        image: Its example input, ``1×C×H×W``.
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
    config: Any, name: str, height: int, width: int, *, detects: bool
) -> Record | None:
    """Return what the image processor of this kind of model does, at another size.

    Processors are classes that may do anything; so what comes out is compared with what one
    makes of two pictures.
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
        changes, spec = _at_size(settings, height, width, detects=detects)
        processor = kind(**{**settings.to_dict(), **changes})
        same = all(_is_same(processor, spec, picture) for picture in _pictures())
    except Exception:  # noqa: BLE001  # a processor of another make is no reason not to deploy
        return None
    return spec if same else None


def _processor_class(config: Any) -> Any:
    """Return the class of the image processor that works on Pillow's images; None for none."""
    import transformers
    from transformers.models.auto import image_processing_auto

    known: Any = getattr(image_processing_auto, "IMAGE_PROCESSOR_MAPPING_NAMES", {})
    name = known.get(config.model_type, {}).get("pil")
    return getattr(transformers, name, None) if name else None


def _at_size(
    settings: Any, height: int, width: int, *, detects: bool
) -> tuple[dict[str, Any], Record]:
    """Return the processor's settings for an input of this size, and the same as data."""
    kernel = _KERNELS[int(settings.resample)]
    exact = {"height": height, "width": width}
    if detects:
        changes, cut = {"size": exact, "do_pad": False}, None
        step = resize(height, width, interpolation=kernel)
    else:
        changes, step, cut = _resized(settings, height, width, kernel)
    normal = settings.do_normalize
    spec = {
        "steps": [step] if cut is None else [step, cut],
        "channels": "BGR" if getattr(settings, "do_flip_channel_order", False) else "RGB",
        "scale": float(settings.rescale_factor) if settings.do_rescale else 1.0,
        "mean": [*map(float, settings.image_mean)] if normal else [0.0],
        "std": [*map(float, settings.image_std)] if normal else [1.0],
    }
    return {**changes, "crop_size": exact}, spec


def _resized(
    settings: Any, height: int, width: int, kernel: Any
) -> tuple[dict[str, Any], Record, Record | None]:
    """Return the processor's size for an input of this one, the same as a step, and the crop.

    What is cut off keeps its share of the picture.
    """
    whole = crop(height, width, rounding="down")
    size = _sides(settings.size)
    shortest, share = size.get("shortest_edge"), getattr(settings, "crop_pct", None)
    if settings.do_center_crop:
        cut = _sides(settings.crop_size)
        if not shortest:
            high, wide = (size[n] * s // cut[n] for n, s in (("height", height), ("width", width)))
            step = resize(high, wide, interpolation=kernel)
            return {"size": {"height": high, "width": wide}}, step, whole
        side = shortest * height // cut["height"]
        step = resize(side, side, fit="cover", interpolation=kernel)
        return {"size": {"shortest_edge": side}}, step, whole
    if shortest and share:
        changes = {"size": {"shortest_edge": height}}
        if height >= 384:  # then it is not cropped
            return changes, resize(height, width, interpolation=kernel), None
        side = int(height / share)
        return changes, resize(side, side, fit="cover", interpolation=kernel), whole
    exact = {"height": height, "width": width}
    return {"size": exact}, resize(height, width, interpolation=kernel), None


def _sides(size: Any) -> dict[str, int]:
    """Return a size as the keys that a processor's settings may have."""
    return size if isinstance(size, dict) else vars(size)


def _pictures() -> list[Image]:
    from PIL import Image

    noise = np.random.default_rng(0)
    sizes = ((301, 402, 3), (170, 133, 3))
    return [Image.fromarray(noise.integers(0, 256, size, np.uint8)) for size in sizes]


def _is_same(processor: Any, spec: Record, picture: Image) -> bool:
    """True if both make the same of a picture, up to one step of 255."""
    wanted = processor(picture, return_tensors="np")["pixel_values"]
    (found,) = read_task(classify(spec, ())).preprocess(picture).values()
    step = abs(spec["scale"]) / min(map(abs, spec["std"]))
    return wanted.shape == found.shape and bool(np.abs(wanted - found).max() <= step * 1.01)
