"""Reads a detector's task (preprocessing, classes and output names) from mmdet's config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_mmdet.library import MMDET
from enginebay_openmmlab import read_normalisation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmengine.config import Config


def make_task(
    config: Config, size: tuple[int, int, int], *, candidates: bool, masks: str = ""
) -> dict[str, object]:
    """Return a dict of the fields of a detector's task.

    Args:
        config: The config, with a complete ``test_cfg``.
        size: Channels, height and width of the input.
        candidates: True for a detector without non-maximum suppression; the task then performs the
            suppression.
        masks: How the masks of the output ``masks`` lie, as the task's ``mask_form``; empty for a
            detector without masks.
    """
    task: dict[str, object] = {
        "type": "object-detection",
        "image": _read_preprocessing(config, size),
        "classes": MMDET.read_class_names(config, _count_classes(config)),
        "boxes": "",
        "scores": "",
    }
    if masks:
        task |= {"type": "instance-segmentation", "masks": "masks", "mask_form": masks}
        if masks == "box":  # the others are cut already
            threshold = config.model.test_cfg.rcnn.get("mask_thr_binary", 0.5)
            # -1 is mmdet's value for masks that are not cut.
            task["mask_threshold"] = threshold if 0 < threshold < 1 else 0.5
    if not candidates:
        return {**task, "labels": "labels"}
    test = config.model.test_cfg
    task |= {"labels": "", "every_class": True}
    if not test.get("nms"):
        return task
    suppression = {
        "iou": test.nms.iou_threshold,
        "per_class": not test.nms.get("class_agnostic", False),
        "most": test.max_per_img,
    }
    return {**task, "nms": suppression}


def _read_preprocessing(config: Config, size: tuple[int, int, int]) -> dict[str, object]:
    """Return the preprocessing of ``test_pipeline`` and ``data_preprocessor`` for an input size."""
    _, height, width = size
    steps = {_type_name(step["type"]): step for step in config.get("test_pipeline", ())}
    normal = read_normalisation(config)
    colour = (normal["mean"] * 3)[:3]
    if normal["channels"] == "BGR":
        colour = colour[::-1]
    # The pipeline pads before the normalisation. Padding after it is with zeros, which is the mean.
    fill = _read_fill(steps["Pad"]) if "Pad" in steps else colour
    exact = {"type": "resize", "height": height, "width": width, "antialias": False}
    fitted = {**exact, "fit": "contain", "rounding": "nearest"}
    padded = {"type": "crop", "height": height, "width": width, "at": "corner"}
    keeps_ratio = any(step.get("keep_ratio") for step in steps.values())
    return {
        "steps": [fitted, {**padded, "fill": [*map(round, fill)]}] if keeps_ratio else [exact],
        **normal,
    }


def _read_fill(pad: Mapping[str, Any]) -> list[float]:
    """Return the padding colour of a ``Pad`` step in ``test_pipeline``, as red, green and blue."""
    value = pad.get("pad_val", 0)
    value = value.get("img", 0) if isinstance(value, dict) else value
    return [value] * 3 if isinstance(value, int | float) else list(value)[::-1]


def _type_name(kind: object) -> str:
    # Newer configs name a type by its class.
    return str(getattr(kind, "__name__", kind))


def _count_classes(config: Config) -> object:
    heads = config.model.get("bbox_head") or config.model.get("roi_head", {}).get("bbox_head", {})
    return (heads[-1] if isinstance(heads, list) else heads).get("num_classes")
