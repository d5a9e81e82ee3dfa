"""Reads a segmenter's task (preprocessing and classes) from mmseg's config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_mmseg.library import MMSEG
from enginebay_openmmlab import read_normalisation

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    return {
        "type": "semantic-segmentation",
        "image": {
            # As in MMDeploy, the ratio of the sides is not kept. OpenCV smooths nothing.
            "steps": [{"type": "resize", "height": size[1], "width": size[2], "antialias": False}],
            **read_normalisation(config),
        },
        "classes": MMSEG.read_class_names(config, classes),
        "form": "classes" if with_argmax else "scores",
        # In the masks of ADE20K, for example, 0 is no class.
        "from_one": any(step.get("reduce_zero_label") for step in config.get("test_pipeline", ())),
    }
