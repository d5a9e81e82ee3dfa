"""A detector of mmdet as a module with tensors as inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from mmdet.models.detectors import BaseDetector
    from mmdet.structures import DetDataSample


class Detector(nn.Module):
    """Module that returns mmdet's detections, with which the engine's detections are compared.

    Args:
        network: The detector as mmdet builds it.
        rows: The number of detections for each image, padding included.
    """

    def __init__(self, network: BaseDetector, rows: int) -> None:
        super().__init__()
        self.network = network
        self.rows = rows

    def forward(self, input: Tensor) -> dict[str, Tensor]:  # noqa: A002  # MMDeploy's name
        """Detect objects.

        Args:
            input: Normalised images, ``N×C×H×W float32``.

        Returns:
            ``dets``, ``N×rows×5 float32``: left, top, right and bottom in pixels of the input, and
            the score; and ``labels``, ``N×rows int64``: the class index, -1 for padding.
        """
        detections = [self.detect(image[None]) for image in input]
        dets, labels = zip(*detections, strict=True)
        return {"dets": torch.stack(dets), "labels": torch.stack(labels)}

    def detect(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Detect objects in one image, ``1×C×H×W``; return the image's ``dets`` and ``labels``."""
        # Without rescaling, boxes are in pixels of the input.
        (sample,) = self.network.predict(image, [make_sample(image)], rescale=False)
        results = sample.pred_instances
        dets = torch.cat([results.bboxes, results.scores[:, None]], 1)[: self.rows]
        labels = results.labels[: self.rows]
        missing = self.rows - dets.shape[0]
        dets = nn.functional.pad(dets, (0, 0, 0, missing))
        return dets, nn.functional.pad(labels, (0, missing), value=-1)


def make_sample(image: Tensor) -> DetDataSample:
    """Return a sample whose metadata describe the image as neither resized nor padded."""
    from mmdet.structures import DetDataSample

    size = (image.shape[-2], image.shape[-1])
    sample = DetDataSample()
    # Not with set_metainfo, which copies the values: dynamic sizes cannot be copied.
    for name in ("img_shape", "ori_shape", "pad_shape", "batch_input_shape"):
        sample.set_field(size, name, field_type="metainfo")
    sample.set_field((1.0, 1.0), "scale_factor", field_type="metainfo")
    return sample
