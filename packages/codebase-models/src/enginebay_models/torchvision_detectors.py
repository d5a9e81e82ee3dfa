"""torchvision's detectors as modules for one image, with or without non-maximum suppression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torchvision.models.detection.ssd import SSD
from torchvision.ops.boxes import clip_boxes_to_image

from enginebay.authors.sources import (
    fixed_seed,
    image_size,
    load_weights,
    measure_norms,
    read_options,
)
from enginebay_models.library import wrap_download_errors
from enginebay_models.records import Record, crop, resize
from enginebay_models.torchvision_options import DetectorOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from torchvision.models.detection.transform import GeneralizedRCNNTransform

    from enginebay.hooks import ModelRequest


def build_detector(
    request: ModelRequest, models: ModuleType
) -> tuple[nn.Module, Tensor, Record, str]:
    """Build a detector of torchvision.

    Args:
        request: The model request. With ``model_type='end2end'`` in ``codebase_config``, a
            single-stage detector includes non-maximum suppression.
        models: The module ``torchvision.models``.

    Returns:
        The detector; an example image, ``1×3×H×W float32``; the detector's image task; and the
        origin of the weights as text.

    Raises:
        ModelSourceError: ``codebase_config`` is wrong.
    """
    options = read_options(request, DetectorOptions)
    with_suppression = options.model_type is not None
    best = models.get_model_weights(request.name).DEFAULT
    # By default torchvision downloads the weights of the backbone.
    arguments = {"weights_backbone": None, **options.arguments}
    with fixed_seed():
        weights = best if options.pretrained else None
        with wrap_download_errors(f"torchvision:{request.name}"):
            network = models.get_model(request.name, weights=weights, **arguments).eval()
        network.transform.resize = _return_unchanged  # the task resizes images instead
        size = image_size(request) or (3, *_read_resized_size(network.transform))
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        elif not options.pretrained:
            _randomise_heads(network)
            measure_norms(network, torch.rand(4, *size))
        image = torch.rand(1, *size)
    # The first of two stages suppresses boxes too, so such detectors are not divided.
    with_suppression = with_suppression or hasattr(network, "roi_heads")
    task = _make_task(
        network, best.meta["categories"], arguments, size, with_suppression=with_suppression
    )
    model = Detector(network) if with_suppression else Candidates(network)
    return model.eval(), image, task, options.weights


class Detector(nn.Module):
    """Module that returns the detections that torchvision computes for one image.

    Args:
        network: The detector as torchvision builds it.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Detect objects.

        Args:
            image: ``1×3×H×W float32``, from 0 to 1.

        Returns:
            ``boxes``, ``rows×4 float32``: left, top, right and bottom in pixels of the input;
            ``scores``, ``rows float32``; and ``labels``, ``rows int64``.
        """
        (results,) = self.network([image.squeeze(0)])
        return {name: results[name] for name in ("boxes", "scores", "labels")}


class Candidates(Detector):
    """Module that returns all boxes of a single-stage detector, with a score for each class.

    torchvision's own code computes the boxes, but does not select the best boxes.

    Args:
        network: The detector as torchvision builds it.
    """

    def __init__(self, network: Any) -> None:
        super().__init__(network)
        network.postprocess_detections = self._decode

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Compute the boxes.

        Args:
            image: ``1×3×H×W float32``, from 0 to 1.

        Returns:
            ``boxes``, ``1×boxes×4 float32``: left, top, right and bottom in pixels of the input;
            and ``scores``, ``1×boxes×classes float32``.
        """
        (results,) = self.network([image.squeeze(0)])
        return {name: values[None] for name, values in results.items()}

    def _decode(self, maps: Any, anchors: Any, sizes: Any) -> list[dict[str, Tensor]]:
        """Return an image's boxes and scores; called instead of ``postprocess_detections``."""
        maps = {name: _join_levels(parts) for name, parts in maps.items()}
        coder = self.network.box_coder
        # The coder of FCOS has no decode_single.
        decode = getattr(coder, "decode_single", coder.decode)
        boxes = decode(maps["bbox_regression"], _join_levels(anchors))
        return [{"boxes": clip_boxes_to_image(boxes, sizes[0]), "scores": self._scores(**maps)}]

    def _scores(
        self, cls_logits: Tensor, bbox_ctrness: Tensor | None = None, **_: Tensor
    ) -> Tensor:
        if isinstance(self.network, SSD):
            scores = cls_logits.softmax(-1)
            classes = torch.arange(scores.shape[-1], device=scores.device)
            return scores * (classes > 0)  # class 0 is the background
        scores = cls_logits.sigmoid()
        return scores if bbox_ctrness is None else torch.sqrt(scores * bbox_ctrness.sigmoid())


def _join_levels(parts: Any) -> Tensor:
    """Join the values of an image's boxes to one tensor with a row for each box.

    ``parts`` is one tensor or, for RetinaNet and FCOS, a list with a tensor for each feature level.
    """
    if isinstance(parts[0], list):
        (parts,) = parts
    return torch.cat(list(parts), -2).flatten(0, -2)


def _return_unchanged(image: Tensor, target: None) -> tuple[Tensor, None]:
    return image, target


def _read_resized_size(transform: GeneralizedRCNNTransform) -> tuple[int, int]:
    """Return the height and width of a landscape image after torchvision's resizing and padding."""
    if transform.fixed_size:
        width, height = transform.fixed_size
        return height, width
    divisor = transform.size_divisible
    height, width = (
        -(-side // divisor) * divisor for side in (transform.min_size[-1], transform.max_size)
    )
    return height, width


def _randomise_heads(network: nn.Module) -> None:
    """Initialise the weights of the heads so that scores and boxes depend on the image."""
    # With torchvision's own initial values, every box has the same score up to two digits.
    for name in ("head", "rpn", "roi_heads"):
        for layer in getattr(network, name, nn.Module()).modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


def _make_task(
    network: Any,
    categories: list[str],
    arguments: Mapping[str, object],
    size: tuple[int, int, int],
    *,
    with_suppression: bool,
) -> Record:
    """Return a detector's task, with non-maximum suppression if the detector performs none."""
    _, height, width = size
    if network.transform.fixed_size:
        steps = [resize(height, width, antialias=False)]
    else:
        mean = [round(255 * value) for value in network.transform.image_mean]
        fitted = resize(height, width, fit="contain", antialias=False)
        steps = [fitted, crop(height, width, at="corner", fill=mean)]
    known = arguments.get("num_classes", len(categories)) == len(categories)
    task = {
        "type": "object-detection",
        "image": {"steps": steps},
        "classes": categories if known else [],
    }
    if with_suppression:
        return task
    suppression = {"iou": network.nms_thresh, "most": network.detections_per_img}
    return {**task, "labels": "", "every_class": True, "nms": suppression}
