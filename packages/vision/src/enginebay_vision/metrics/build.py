"""The metrics ``vision:NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError, nearest
from enginebay_vision.metrics.average_precision import BoxPrecision, KeypointPrecision
from enginebay_vision.metrics.mean_iou import MeanIoU
from enginebay_vision.metrics.means import PictureMean, edits, psnr, relative_error, rmse

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay_vision.metrics.picture_metric import PictureMetric

_METRICS: dict[str, Callable[[], PictureMetric]] = {
    "miou": lambda: MeanIoU("semantic-segmentation"),
    "psnr": lambda: PictureMean(psnr, "image-to-image", higher_is_better=True),
    "abs-rel": lambda: PictureMean(relative_error, "depth-estimation"),
    "rmse": lambda: PictureMean(rmse, "depth-estimation"),
    "map": lambda: BoxPrecision("object-detection"),
    "oks-ap": lambda: KeypointPrecision("keypoint-detection"),
    "cer": lambda: PictureMean(edits, "text-recognition"),
}


def build_metric(name: str) -> PictureMetric:
    """Build the metric of this name.

    Raises:
        UsageError: There is none.
    """
    if name not in _METRICS:
        close = nearest(name, _METRICS)
        raise UsageError(
            f"unknown metric 'vision:{name}'; available: {', '.join(_METRICS)}",
            hint=f"did you mean 'vision:{close}'?" if close else None,
        )
    return _METRICS[name]()
