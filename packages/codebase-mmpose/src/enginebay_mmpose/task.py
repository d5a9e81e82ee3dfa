"""Reads an estimator's task (preprocessing and names of points) from mmpose's config."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from enginebay_mmpose.library import MMPOSE
from enginebay_openmmlab import read_normalisation

if TYPE_CHECKING:
    from collections.abc import Mapping


def make_task(
    config: Mapping[str, Any], size: tuple[int, int, int], form: str, count: int
) -> dict[str, object] | None:
    """Return a dict of the fields of an estimator's task; None if there is none for it.

    Args:
        config: The estimator's config.
        size: Channels, height and width of the input.
        form: What the head returns: ``heatmaps``, ``simcc``, ``coordinates`` or ``people``.
        count: The number of points.
    """
    if size[0] != 3 or form == "coordinates":
        return None
    people = form == "people"
    extent = {"height": size[1], "width": size[2]}
    # mmpose keeps the ratio of the sides. OpenCV smooths nothing.
    fitted = {"type": "resize", **extent, "fit": "contain", "rounding": "nearest"}
    padded = {"type": "crop", **extent, "fill": [114 if people else 0] * 3}
    steps = [{**fitted, "antialias": False}, padded]
    image = {"steps": steps, **read_normalisation(config)}
    if people:
        # The boxes: there is no task for the points of several bodies.
        boxes = {"boxes": "dets", "scores": "", "labels": "", "classes": ["person"]}
        return {"type": "object-detection", "image": image, **boxes}
    outputs = {"output": "simcc_x", "output_y": "simcc_y"} if form == "simcc" else {}
    return {"type": "keypoint-detection", "image": image, **outputs, **_read_points(config, count)}


def _read_points(config: Mapping[str, Any], count: int) -> dict[str, object]:
    """Return the names, skeleton and sigmas of the test data's points, if there are ``count``."""
    from mmpose.datasets.datasets.utils import parse_pose_metainfo

    data = config.get("test_dataloader", {}).get("dataset", {})
    kind = data.get("type")
    known = kind if isinstance(kind, type) else MMPOSE.registry("DATASETS").get(str(kind))
    info = data.get("metainfo") or getattr(known, "METAINFO", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mmpose tells in which folder it finds a file of its own
        try:
            points = parse_pose_metainfo(dict(info)) if info else {}
        except Exception:  # noqa: BLE001  # names are optional, and their file may be missing
            points = {}
    names = points.get("keypoint_id2name", {})
    if len(names) != count:
        return {}
    return {
        "classes": [names[index] for index in range(count)],
        "skeleton": [list(link) for link in points["skeleton_links"]],
        "sigmas": [float(sigma) for sigma in points["sigmas"]],
    }
