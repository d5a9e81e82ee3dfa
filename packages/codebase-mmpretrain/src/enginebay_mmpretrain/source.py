"""``mmpretrain:NAME`` and ``mmpretrain:CONFIG.py``: any image classifier of mmpretrain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors.files import quiet
from enginebay.authors.sources import (
    Options,
    fixed_seed,
    image_size,
    load_weights,
    measure_norms,
    read_options,
)
from enginebay.errors import ModelSourceError, did_you_mean
from enginebay_mmpretrain.library import import_library
from enginebay_mmpretrain.model_config import (
    check_classifier,
    read_config,
    read_image_size,
    set_image_size,
)
from enginebay_mmpretrain.task import classification_task
from enginebay_mmpretrain.weights import load_published

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest

TASK = "Classification"


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
    options = check_section(request)
    with quiet():  # mmpretrain prints each missing optional package
        return _build_classifier(request, options, import_library())


def _build_classifier(
    request: ModelRequest, options: Options, mmpretrain: ModuleType
) -> tuple[nn.Module, Tensor | None, dict[str, object] | None, str]:
    import torch

    config, published = read_config(mmpretrain, request.name)
    if options.arguments:
        config.merge_from_dict({"model": options.arguments})
    check_classifier(config, request.name)
    requested = image_size(request)
    if requested:
        set_image_size(config, requested)
    size = requested or read_image_size(config)
    with fixed_seed():
        network = mmpretrain.get_model(config)
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        elif options.pretrained:
            load_published(network, published, request.name)
        elif size:
            # As built, MobileNetV2 gives all images the same scores: any engine is verified.
            measure_norms(network, torch.randn(4, *size))
        # Noise with mean 0 and deviation 1, since the model expects normalised images.
        image = torch.randn(1, *size) if size else None
    from enginebay_mmpretrain.classifier import Classifier

    model = Classifier(network).eval()
    task = classification_task(network, config, size) if size else None
    return model, image, task, options.weights


def check_section(request: ModelRequest) -> Options:
    """Check ``codebase_config``, and return its options.

    Raises:
        ModelSourceError: A key is unknown, or a value is wrong for any classifier.
    """
    options = read_options(request)
    if options.task not in (None, TASK):
        raise ModelSourceError(
            f"codebase_config.task: '{options.task}' is not a task of mmpretrain; available: "
            f"{TASK}",
            hint=did_you_mean(str(options.task), [TASK]) or f"set task='{TASK}', or remove task",
        )
    return options
