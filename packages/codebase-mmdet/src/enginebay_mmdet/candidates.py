"""A single-stage detector without its suppression: every box, with a score for each class."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from enginebay_mmdet.detector import sample_of


class Candidates(nn.Module):
    """All boxes of mmdet's head, by its own code but for the choice of the best ones.

    Args:
        network: The detector as mmdet builds it.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        self.config = network.test_cfg.copy()
        self.config.update(score_thr=-1, min_bbox_size=-1)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name that MMDeploy's configs use
        """Compute the boxes.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            ``N×boxes×(4 + classes) float32``: left, top, right and bottom in pixels of the input,
            and the scores.
        """
        if input.shape[0] == 1:  # what ncnn takes: it has no layer that takes a batch apart
            return self._of_one(input)[None]
        return torch.stack([self._of_one(image[None]) for image in input])

    def _of_one(self, image: Tensor) -> Tensor:
        head = self.network.bbox_head
        maps = head(self.network.extract_feat(image))
        with patch.dict(_names_of(head), filter_scores_and_topk=_all):
            (found,) = head.predict_by_feat(
                *maps,
                batch_img_metas=[sample_of(image).metainfo],
                cfg=self.config,
                with_nms=False,
            )
        scores = found.scores
        if scores.dim() == 1:  # YOLOX: a box is of its best class alone
            classes = torch.arange(head.num_classes, device=scores.device)
            scores = scores[:, None] * (found.labels[:, None] == classes)
        return torch.cat([found.bboxes, scores], 1)


def _names_of(head: Any) -> dict[str, Any]:
    """Return the globals of the function that chooses the best boxes."""
    names: dict[str, Any] = head._predict_by_feat_single.__func__.__globals__
    return names


def _all(scores: Tensor, _: float, __: int, results: Any) -> tuple[Any, ...]:
    """Choose every box, in the place of mmdet's ``filter_scores_and_topk``.

    The third value is an index: it gives what the scores are multiplied with a second dimension.
    """
    return scores, scores.new_zeros(scores.shape[0]), (slice(None), None), results
