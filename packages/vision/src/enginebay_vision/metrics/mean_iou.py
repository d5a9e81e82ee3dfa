"""The overlap of masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay_vision.metrics.picture_metric import PictureMetric, add_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay_vision.found import FoundMap, Segment
    from enginebay_vision.truth.annotated import Target


class MeanIoU(PictureMetric):
    """The mean over classes of the shared pixels' part of those that are found or true.

    Pixels without a true class do not count, nor do classes that occur nowhere.
    """

    def reset(self) -> None:
        """Forget all items."""
        self.metric_state = {"counts": np.zeros((3, 0), np.int64)}

    def add(self, found: FoundMap[Segment], target: Target) -> None:
        """Add a mask."""
        seen = target.truth >= 0
        mask, right = found.array[seen], target.truth[seen]
        size = max(mask.max(initial=-1), right.max(initial=-1)) + 1
        each = (mask[mask == right], mask[mask >= 0], right)
        self.merge_state({"counts": np.stack([np.bincount(c, minlength=size) for c in each])})

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Add the pixels of another metric of this kind."""
        self.metric_state = {"counts": add_counts(self.metric_state["counts"], state["counts"])}

    def compute(self) -> float:
        """The mean; NaN before the first item."""
        both, found, true = self.metric_state["counts"]
        union = found + true - both
        return float((both[union > 0] / union[union > 0]).mean()) if union.any() else np.nan
