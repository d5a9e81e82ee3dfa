"""What a detector of mmdet is for, as plain data that enginebay-vision reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def task_of(config: Any, size: tuple[int, int, int], *, candidates: bool) -> dict[str, Any]:
    """Return the task of a detector.

    Args:
        config: Its config, with all that ``test_cfg`` says.
        size: Channels, height and width of its input.
        candidates: True for a detector that ends before its suppression, which is the task's then.
    """
    task: dict[str, Any] = {
        "type": "object-detection",
        "image": _image(config, size),
        "classes": _classes(config),
        "boxes": "",
        "scores": "",
    }
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


def _image(config: Any, size: tuple[int, int, int]) -> dict[str, Any]:
    """Return what ``test_pipeline`` and ``data_preprocessor`` do, for an input of a size."""
    _, height, width = size
    steps = {_name(step["type"]): step for step in config.get("test_pipeline", ())}
    normal = config.model.get("data_preprocessor") or {}
    mean, std = list(normal.get("mean", [0.0] * 3)), list(normal.get("std", [1.0] * 3))
    is_rgb = normal.get("bgr_to_rgb", False)
    # The pipeline pads before the normalisation; what comes behind it pads with zeros: the mean.
    fill = _fill(steps["Pad"]) if "Pad" in steps else mean if is_rgb else mean[::-1]
    exact = {"type": "resize", "height": height, "width": width, "antialias": False}
    inside = {**exact, "fit": "contain", "rounding": "nearest"}
    padded = {"type": "crop", "height": height, "width": width, "at": "corner"}
    keeps_ratio = any(step.get("keep_ratio") for step in steps.values())
    return {
        "steps": [inside, {**padded, "fill": [*map(round, fill)]}] if keeps_ratio else [exact],
        "channels": "RGB" if is_rgb else "BGR",
        "scale": 1.0,
        "mean": mean,
        "std": std,
    }


def _fill(pad: Any) -> list[float]:
    """Return the colour that a step ``Pad`` fills up with: red, green, blue."""
    value = pad.get("pad_val", 0)
    value = value.get("img", 0) if isinstance(value, dict) else value
    return [value] * 3 if isinstance(value, int | float) else list(value)[::-1]


def _name(kind: Any) -> str:
    """Return the name of a type, which newer configs give as a class."""
    return str(getattr(kind, "__name__", kind))


def _classes(config: Any) -> list[str]:
    """Return the names of the classes of the data that it is tested with, if their number fits."""
    data = config.get("test_dataloader", {}).get("dataset", {})
    heads = config.model.get("bbox_head") or config.model.get("roi_head", {}).get("bbox_head", {})
    head = heads[-1] if isinstance(heads, list) else heads
    names = data.get("metainfo", {}).get("classes") or _known_classes(_name(data.get("type")))
    return list(names) if len(names) == head.get("num_classes") else []


def _known_classes(kind: str) -> Sequence[str]:
    from mmdet.registry import DATASETS

    try:  # it imports all that mmdet's data sets need, which may be missing
        names: Sequence[str] = getattr(DATASETS.get(kind), "METAINFO", {}).get("classes", ())
    except Exception:  # noqa: BLE001  # without names a detector is no worse
        return ()
    return names
