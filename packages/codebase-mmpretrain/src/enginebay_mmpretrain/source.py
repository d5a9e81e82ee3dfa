"""``mmpretrain:NAME`` and ``mmpretrain:CONFIG.py``: any image classifier of mmpretrain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from enginebay.authors.files import quiet
from enginebay.authors.sources import (
    Options,
    fixed_seed,
    image_size,
    load_weights,
    measure_norms,
    read_options,
)
from enginebay_mmpretrain.library import MMPRETRAIN
from enginebay_mmpretrain.model_config import check_head, read_image_size, set_image_size
from enginebay_mmpretrain.task import classification_task
from enginebay_mmpretrain.weights import load_published

if TYPE_CHECKING:
    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest


class ClassifierOptions(Options, frozen=True, kw_only=True):
    """The keys of ``codebase_config`` for classifiers, which have one task."""

    task: Literal["Classification"] | None = None


def build_classifier(
    request: ModelRequest,
) -> tuple[nn.Module, Tensor | None, dict[str, object] | None, str]:
    """Build a classifier.

    Returns:
        The classifier; an example image, ``1×C×H×W float32``, or None if the image size is unknown;
        the classifier's image task, or None; and the origin of the weights as text.

    Raises:
        ModelSourceError: The classifier does not exist, or ``codebase_config`` is wrong.
        MissingDependencyError: mmpretrain is missing or cannot be imported.
    """
    options = read_options(request, ClassifierOptions)
    config = MMPRETRAIN.read_config(request.name, options.arguments)
    check_head(config, request.name)
    import torch

    requested = image_size(request)
    if requested:
        set_image_size(config, requested)
    size = requested or read_image_size(config)
    with quiet(), fixed_seed():
        network = MMPRETRAIN.build(config, request.name)
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        elif options.pretrained:
            load_published(network, config.get("load_from"), request.name)
        elif size:
            # As built, MobileNetV2 gives all images the same scores: any engine is verified.
            measure_norms(network, torch.randn(4, *size))
        # Noise with mean 0 and deviation 1, since the model expects normalised images.
        image = torch.randn(1, *size) if size else None
    from enginebay_mmpretrain.classifier import Classifier

    model = Classifier(network).eval()
    task = classification_task(network, config, size) if size else None
    return model, image, task, options.weights
