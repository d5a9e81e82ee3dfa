"""``mmseg:NAME`` and ``mmseg:CONFIG.py``: any semantic segmenter of mmseg."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from enginebay.authors.files import quiet
from enginebay.authors.sources import Options, fixed_seed, image_size, load_weights, measure_norms
from enginebay_mmseg.library import MMSEG
from enginebay_mmseg.task import make_task
from enginebay_openmmlab import wrap_size_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmengine.config import Config
    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest
    from enginebay_mmseg.segmenter import Segmenter

_log = logging.getLogger("enginebay.mmseg")


class SegmenterOptions(Options, frozen=True, kw_only=True):
    """The keys of ``codebase_config`` for segmenters.

    Attributes:
        task: The only task.
        with_argmax: False for a model that returns scores instead of classes.
    """

    task: Literal["Segmentation"] | None = None
    with_argmax: bool = True


def build_segmenter(
    request: ModelRequest,
) -> tuple[nn.Module, Tensor, dict[str, object] | None, str]:
    """Build a segmenter.

    Returns:
        The segmenter; an example image, ``1×C×H×W float32``; the segmenter's image task, or None;
        and the origin of the weights as text.

    Raises:
        ModelSourceError: The segmenter does not exist, or ``codebase_config`` is wrong.
        MissingDependencyError: mmseg is missing or cannot be imported.
    """
    options = MMSEG.read_options(request, SegmenterOptions)
    config = MMSEG.read_config(request.name, options.arguments)
    size = image_size(request) or read_image_size(config)
    _warn_of_windows(config, size)
    import torch

    from enginebay_mmseg.segmenter import Segmenter

    with quiet(), fixed_seed():
        network: Any = MMSEG.build(config, request.name)
        model = Segmenter(network, with_argmax=options.with_argmax).eval()
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        else:
            _spread_classes(model, torch.randn(2, *size), request.name)
        # Noise with mean 0 and deviation 1, since the model expects normalised images.
        image = torch.randn(1, *size)
        task = make_task(config, size, network.num_classes, with_argmax=options.with_argmax)
    return model, image, task, options.weights


def read_image_size(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the channels, height and width of the images that a config trains with.

    These are crops. The size that a ``test_pipeline`` resizes to differs from image to image.

    Example:
        >>> read_image_size({"model": {"data_preprocessor": {"size": (512, 1024)}}})
        (3, 512, 1024)
    """
    model = config["model"]
    size = (model.get("data_preprocessor") or {}).get("size") or config.get("crop_size", 512)
    height, width = (size, size) if isinstance(size, int) else size
    return model.get("backbone", {}).get("in_channels", 3), height, width


def _spread_classes(model: Segmenter, images: Tensor, name: str) -> None:
    """Measure the norms, and initialise the last layer so that each class wins somewhere.

    As built, deep networks hardly tell images apart, and few of the classes win any pixel: an
    engine that is wrong in all others would be verified.

    Raises:
        ModelSourceError: The network is not for images of this size.
    """
    import torch

    hint = "--input sets another size, backbone=dict(img_size=…) in arguments the network's"
    with wrap_size_errors(name, images.shape[1:], hint):
        measure_norms(model, images)
    layer = getattr(model.head, "conv_seg", None)
    with torch.no_grad():
        scores = model.compute_scores(images)
        if layer is None or layer.weight.shape[0] != scores.shape[1]:
            return  # a head with another last layer
        mean, deviation = scores.mean((0, 2, 3)), scores.std((0, 2, 3)).clamp(min=1e-6)
        layer.weight /= deviation[:, None, None, None]
        layer.bias.copy_((layer.bias - mean) / deviation)


def _warn_of_windows(config: Config, size: tuple[int, int, int]) -> None:
    """Log a warning if mmseg's tests cut images of this size into windows."""
    test = config.model.get("test_cfg") or {}
    if test.get("mode") != "slide":
        return
    crop = test["crop_size"]
    height, width = (crop, crop) if isinstance(crop, int) else crop
    if size[1] > height or size[2] > width:
        _log.warning(
            "mmseg's test_cfg cuts an image of %dx%d into windows of %dx%d; the deployed model "
            "classifies the whole image, as in MMDeploy: --input input=1x%dx%dx%d is one window",
            *size[1:], height, width, size[0], height, width,
        )  # fmt: skip
