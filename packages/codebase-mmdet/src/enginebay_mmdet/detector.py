"""A detector of mmdet as a network: images in, detections out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Detector(nn.Module):
    """The detections that mmdet itself predicts: the reference for an engine's.

    Args:
        network: The detector as mmdet builds it.
        rows: How many detections there are for each image; zeros fill what is left of them.
    """

    def __init__(self, network: Any, rows: int) -> None:
        super().__init__()
        self.network = network
        self.rows = rows

    def forward(self, input: Tensor) -> dict[str, Tensor]:  # noqa: A002  # MMDeploy's name
        """Find objects.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            ``dets``, ``N×rows×5 float32``: left, top, right and bottom in pixels of the input, and
            the score; and ``labels``, ``N×rows int64``: the number of the class, -1 where there
            is none.
        """
        found = [self.detect(image[None]) for image in input]
        dets, labels = zip(*found, strict=True)
        return {"dets": torch.stack(dets), "labels": torch.stack(labels)}

    def detect(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Find objects in one image, ``1×C×H×W``; return what :meth:`forward` stacks."""
        (sample,) = self.network.predict(image, [sample_of(image)], rescale=False)
        found = sample.pred_instances
        dets = torch.cat([found.bboxes, found.scores[:, None]], 1)[: self.rows]
        labels = found.labels[: self.rows]
        more = self.rows - dets.shape[0]
        dets = nn.functional.pad(dets, (0, 0, 0, more))
        return dets, nn.functional.pad(labels, (0, more), value=-1)


def sample_of(image: Tensor) -> Any:
    """Return what mmdet wants to know about an image that was neither resized nor padded."""
    from mmdet.structures import DetDataSample

    size = (image.shape[-2], image.shape[-1])
    sample = DetDataSample()
    # Not by set_metainfo: it copies its values, and an open size cannot be copied.
    for name in ("img_shape", "ori_shape", "pad_shape", "batch_input_shape"):
        sample.set_field(size, name, field_type="metainfo")
    sample.set_field((1.0, 1.0), "scale_factor", field_type="metainfo")
    return sample
