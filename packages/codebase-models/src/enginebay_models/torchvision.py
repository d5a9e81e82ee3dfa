"""``torchvision:NAME``: torchvision's networks for images and video."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors.sources import (
    fixed_seed,
    image_size,
    load_weights,
    measure_norms,
    no_model_error,
    read_options,
)
from enginebay.errors import ModelSourceError
from enginebay_models.library import import_library, wrap_download_errors
from enginebay_models.tasks import torchvision_task

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torchvision.models import WeightsEnum

    from enginebay.hooks import ModelRequest
    from enginebay_models.records import Record

#: The number of frames of a video: torchvision's presets were trained on 16.
FRAMES = 16
IMAGE_SIZE = 224
#: The reasons why networks cannot be deployed by name, by the start of their names.
_REFUSED = {
    "raft_": "takes two images",
    "maskrcnn_": "finds masks in addition to boxes",
    "keypointrcnn_": "finds keypoints in addition to boxes",
}


def build_model(request: ModelRequest) -> tuple[nn.Module, Tensor, Record | None, str]:
    """Build a model of torchvision.

    Returns:
        The model; an example image, ``1×3×H×W float32``, or video, ``1×3×16×H×W float32``; the
        image task of a classifier or detector, or None; and the origin of the weights as text.

    Raises:
        ModelSourceError: torchvision has no such model, or ``codebase_config`` is wrong.
        MissingDependencyError: torchvision is missing or cannot be imported.
    """
    models = import_library("torchvision").models
    name = request.name
    if name not in models.list_models():
        raise no_model_error("torchvision", name, models.list_models())
    for start, why in _REFUSED.items():
        if name.startswith(start):
            raise ModelSourceError(
                f"'torchvision:{name}' cannot be deployed by name, since the model {why}",
                hint="write a function that returns (model, inputs): file.py:attr",
            )
    if name in models.list_models(module=models.detection):
        from enginebay_models.torchvision_detectors import build_detector

        return build_detector(request, models)
    options = read_options(request)
    import torch

    best = models.get_model_weights(name).DEFAULT
    arguments = dict(options.arguments)
    if not options.pretrained and name in models.list_models(module=models.segmentation):
        # By default torchvision downloads the weights of the backbone.
        arguments.setdefault("weights_backbone", None)
    with fixed_seed():
        weights = best if options.pretrained else None
        with wrap_download_errors(f"torchvision:{name}"):
            model = models.get_model(name, weights=weights, **arguments)
        size = image_size(request) or (3, *_read_trained_size(best))
        video = name in models.list_models(module=models.video)
        example = torch.rand(1, size[0], *([FRAMES] if video else []), *size[1:])
        if options.checkpoint:
            load_weights(model, options.checkpoint)
        elif not options.pretrained:
            # As built, EfficientNet scores every image within 4e-14 of 0: any engine is verified.
            measure_norms(model, torch.rand(4, *example.shape[1:]))
    return model.eval(), example, torchvision_task(best, arguments, size), options.weights


def _read_trained_size(weights: WeightsEnum) -> tuple[int, int]:
    """Return the height and width for which the published weights were trained."""
    transforms = weights.transforms()
    crop = getattr(transforms, "crop_size", None) or [IMAGE_SIZE]
    return int(crop[0]), int(crop[-1])
