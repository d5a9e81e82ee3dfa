"""A detector of mmdet as a module with tensors as inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmdet.models.detectors import BaseDetector
    from mmdet.models.roi_heads import StandardRoIHead
    from mmdet.structures import DetDataSample
    from mmengine.structures import InstanceData

#: MMDeploy's names of the outputs; a network without masks has the first two.
OUTPUTS = ("dets", "labels", "masks")


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
            the score; and ``labels``, ``N×rows int64``: the class index, -1 for padding. For a
            network with masks also ``masks``: ``N×rows×H×W bool``, the pixels of each object; or,
            for one that computes a mask inside of each box, ``N×rows×h×w float32``, the
            probability that the object covers a cell of its box.
        """
        found = zip(*(self.detect(image[None]) for image in input), strict=True)
        return dict(zip(OUTPUTS, map(torch.stack, found), strict=False))

    def detect(self, image: Tensor) -> tuple[Tensor, ...]:
        """Detect objects in one image, ``1×C×H×W``; return the image's outputs."""
        # Without rescaling, boxes are in pixels of the input.
        (sample,) = self.network.predict(image, [make_sample(image)], rescale=False)
        results = sample.pred_instances
        dets = torch.cat([results.bboxes, results.scores[:, None]], 1)[: self.rows]
        labels = results.labels[: self.rows]
        missing = self.rows - dets.shape[0]
        dets = nn.functional.pad(dets, (0, 0, 0, missing))
        labels = nn.functional.pad(labels, (0, missing), value=-1)
        if "masks" not in results:
            return dets, labels
        masks = results.masks[: self.rows]
        return dets, labels, nn.functional.pad(masks, (0, 0, 0, 0, 0, missing))


def return_box_masks(head: StandardRoIHead) -> None:
    """Make a head return masks of its boxes, instead of pixels of the image that it pastes into."""

    def predict_mask(
        maps: Sequence[Tensor], _: object, results_list: list[InstanceData], **__: object
    ) -> list[InstanceData]:
        from mmdet.structures.bbox import bbox2roi

        (results,) = results_list
        logits = head._mask_forward(maps, bbox2roi([results.bboxes]))["mask_preds"]
        results.masks = select_class(head, logits, results.labels).sigmoid()
        return results_list

    head.predict_mask = predict_mask


def select_class(head: StandardRoIHead, masks: Tensor, labels: Tensor) -> Tensor:
    """Select, of masks ``N×classes×h×w``, the one of each box's class: ``N×h×w``."""
    if head.mask_head.class_agnostic:
        return masks[:, 0]
    indices = labels.reshape(-1, 1, 1, 1).expand(-1, 1, *masks.shape[2:])
    return masks.gather(1, indices)[:, 0]


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
