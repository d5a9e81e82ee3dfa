"""``torchvision:NAME``: torchvision's networks of pictures and video."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors import fixed_seed, image_size, load_weights, measure_norms, read_options
from enginebay.errors import ModelSourceError
from enginebay_models.library import downloads, library, unknown
from enginebay_models.tasks import torchvision_task

if TYPE_CHECKING:
    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest
    from enginebay_models.records import Record

#: Frames of a video; torchvision's own presets were trained on 16.
FRAMES = 16
IMAGE_SIZE = 224
#: Networks that are refused, by the start of their names, and why.
_REFUSED = {
    "raft_": "takes two images",
    "maskrcnn_": "finds masks beside boxes",
    "keypointrcnn_": "finds keypoints beside boxes",
}


def build(request: ModelRequest) -> tuple[nn.Module, Tensor, Record | None, str]:
    """Build a model; an image, ``1×3×H×W float32``, or a video, ``1×3×16×H×W float32``; its task.

    Raises:
        ModelSourceError: torchvision has no such model, or the config is wrong.
        MissingDependencyError: torchvision is missing or does not import.
    """
    models = library("torchvision").models
    name = request.name
    if name not in models.list_models():
        raise unknown("torchvision", name, models.list_models())
    for start, why in _REFUSED.items():
        if name.startswith(start):
            raise ModelSourceError(
                f"'torchvision:{name}' {why}, which nothing here knows how to deploy",
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
        arguments.setdefault("weights_backbone", None)  # else the backbone's are downloaded
    with fixed_seed():
        weights = best if options.pretrained else None
        with downloads(f"torchvision:{name}"):
            model = models.get_model(name, weights=weights, **arguments)
        size = image_size(request) or (3, *_trained_at(best))
        video = name in models.list_models(module=models.video)
        example = torch.rand(1, size[0], *([FRAMES] if video else []), *size[1:])
        if options.checkpoint:
            load_weights(model, options.checkpoint)
        elif not options.pretrained:
            measure_norms(model, torch.rand(4, *example.shape[1:]))
    return model.eval(), example, torchvision_task(best, arguments, size), options.weights


def _trained_at(weights: Any) -> tuple[int, int]:
    """Return the height and width that the published weights are used with."""
    transforms = weights.transforms()
    crop = getattr(transforms, "crop_size", None) or [IMAGE_SIZE]
    return int(crop[0]), int(crop[-1])
