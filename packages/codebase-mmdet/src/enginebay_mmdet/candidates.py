"""A detector module that returns all boxes and class scores, without non-maximum suppression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from enginebay_mmdet.detector import make_sample

if TYPE_CHECKING:
    from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
    from mmdet.models.detectors import SingleStageDetector


class Candidates(nn.Module):
    """Module that returns all boxes of a single-stage detector, not only the best boxes.

    Args:
        network: The detector as mmdet builds it.
    """

    def __init__(self, network: SingleStageDetector) -> None:
        super().__init__()
        self.network = network
        self.config = network.test_cfg.copy()
        # No box is dropped: code that dropped boxes of no area broke SSD on ncnn.
        self.config.update(score_thr=-1, min_bbox_size=-1)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name that MMDeploy's configs use
        """Compute the boxes.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            ``N×boxes×(4 + classes) float32``: left, top, right and bottom in pixels of the input,
            and a score for each class.
        """
        if input.shape[0] == 1:  # ncnn has no layer that splits a batch
            return self._compute_one(input)[None]
        return torch.stack([self._compute_one(image[None]) for image in input])

    def _compute_one(self, image: Tensor) -> Tensor:
        head = self.network.bbox_head
        maps = head(self.network.extract_feat(image))
        with patch.dict(_get_globals(head), filter_scores_and_topk=_select_all):
            (results,) = head.predict_by_feat(
                *maps,
                batch_img_metas=[make_sample(image).metainfo],
                cfg=self.config,
                with_nms=False,
            )
        scores = results.scores
        if scores.dim() == 1:  # YOLOX: a box has only its best class
            classes = torch.arange(head.num_classes, device=scores.device)
            scores = scores[:, None] * (results.labels[:, None] == classes)
        return torch.cat([results.bboxes, scores], 1)


def _get_globals(head: BaseDenseHead) -> dict[str, Any]:
    """Return the global variables of the method with which a head selects the best boxes."""
    names: dict[str, Any] = head._predict_by_feat_single.__func__.__globals__
    return names


def _select_all(scores: Tensor, _: float, __: int, results: object) -> tuple[object, ...]:
    """Select every box; this function replaces mmdet's ``filter_scores_and_topk``."""
    # mmdet indexes the factors of the scores with the third value. This one adds a dimension to
    # them, so that they are multiplied with the scores of all classes.
    return scores, scores.new_zeros(scores.shape[0]), (slice(None), None), results
