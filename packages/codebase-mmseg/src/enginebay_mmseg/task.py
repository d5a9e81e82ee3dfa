"""Reads a segmenter's task (preprocessing and classes) from mmseg's config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def make_task(
    config: Mapping[str, Any], size: tuple[int, int, int], classes: int, *, with_argmax: bool
) -> dict[str, object] | None:
    """Return a dict of the fields of a segmenter's task; None unless the images have 3 channels.

    Args:
        config: The segmenter's config.
        size: Channels, height and width of the input.
        classes: The number of the segmenter's classes.
        with_argmax: True if the segmenter returns classes, False if it returns scores.
    """
    if size[0] != 3:
        return None
    data = config.get("test_dataloader", {}).get("dataset", {})
    names = data.get("metainfo", {}).get("classes") or _known_classes(data.get("type"))
    normal = config["model"].get("data_preprocessor") or {}
    return {
        "type": "semantic-segmentation",
        "image": {
            # As in MMDeploy, the ratio of the sides is not kept. OpenCV smooths nothing.
            "steps": [{"type": "resize", "height": size[1], "width": size[2], "antialias": False}],
            "channels": "RGB" if normal.get("bgr_to_rgb") else "BGR",
            "scale": 1.0,
            "mean": list(normal.get("mean") or [0.0]),
            "std": list(normal.get("std") or [1.0]),
        },
        "classes": list(names) if len(names) == classes else [],
        "form": "classes" if with_argmax else "scores",
        # In the masks of ADE20K, for example, 0 is no class.
        "from_one": any(step.get("reduce_zero_label") for step in config.get("test_pipeline", ())),
    }


def _known_classes(kind: object) -> Sequence[str]:
    from mmseg.registry import DATASETS

    try:  # imports the dependencies of all data sets, which may be missing
        data = kind if isinstance(kind, type) else DATASETS.get(str(kind))
        names: Sequence[str] = getattr(data, "METAINFO", {}).get("classes", ())
    except Exception:  # noqa: BLE001  # names are optional
        return ()
    return names
