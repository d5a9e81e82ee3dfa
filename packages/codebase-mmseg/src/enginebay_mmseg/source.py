"""``mmseg:NAME`` and ``mmseg:CONFIG.py``: any semantic segmenter of mmseg."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.files import quiet
from enginebay.authors.sources import (
    fixed_seed,
    image_size,
    load_weights,
    measure_norms,
    read_options,
)
from enginebay.errors import ModelSourceError, did_you_mean
from enginebay_mmseg.library import import_library
from enginebay_mmseg.model_config import read_config, read_image_size
from enginebay_mmseg.task import make_task

if TYPE_CHECKING:
    from mmengine.config import Config
    from mmseg.models.segmentors import EncoderDecoder
    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest
    from enginebay_mmseg.segmenter import Segmenter

TASK = "Segmentation"

_log = logging.getLogger("enginebay.mmseg")


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
    section = dict(request.codebase_config)
    with_argmax = section.pop("with_argmax", True)
    options = read_options(msgspec.structs.replace(request, codebase_config=section))
    _check_task(options.task)
    if not isinstance(with_argmax, bool):
        raise ModelSourceError(
            f"codebase_config.with_argmax: expected True or False, found {with_argmax!r}"
        )
    if options.pretrained:
        raise ModelSourceError(
            "mmseg's published weights are not downloaded automatically",
            hint="download the checkpoint from the model zoo and use --weights FILE",
        )
    with quiet():  # mmseg prints each missing optional package
        config = read_config(import_library(), request.name)
    try:
        config.merge_from_dict({"model": options.arguments})
    except (TypeError, KeyError) as err:
        raise ModelSourceError(
            f"codebase_config.arguments do not fit the model of '{request.name}': {err}",
            hint="a head of a cascade has its number as key: arguments=dict(decode_head={'1': …})",
        ) from err
    size = image_size(request) or read_image_size(config)
    _warn_of_windows(config, size)
    import torch

    from enginebay_mmseg.segmenter import Segmenter

    with quiet(), fixed_seed():
        network = _build_network(config, request.name)
        model = Segmenter(network, with_argmax=with_argmax).eval()
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        else:
            _spread_classes(model, torch.randn(2, *size), request.name)
        # Noise with mean 0 and deviation 1, since the model expects normalised images.
        image = torch.randn(1, *size)
        task = make_task(config, size, network.num_classes, with_argmax=with_argmax)
    return model, image, task, options.weights


def _build_network(config: Config, name: str) -> EncoderDecoder:
    """Build the network of a config, with plain norms in place of those of distributed training.

    Raises:
        ModelSourceError: A part is not in this mmseg, requires a package or operators that are not
            installed, or does not accept its arguments.
    """
    from mmengine.model import revert_sync_batchnorm
    from mmengine.registry import DefaultScope
    from mmseg.registry import MODELS

    try:
        # The default scope is the registry in which mmengine looks up the names of classes first.
        with DefaultScope.overwrite_default_scope("mmseg"):
            network: EncoderDecoder = revert_sync_batchnorm(MODELS.build(config.model)).eval()
    except Exception as err:  # mmengine repeats any error of a constructor
        why = " ".join(f"{type(err).__name__}: {err}".split())[:300]
        raise ModelSourceError(f"'{name}' cannot be built: {why}") from err
    return network


def _spread_classes(model: Segmenter, images: Tensor, name: str) -> None:
    """Measure the norms, and initialise the last layer so that each class wins somewhere.

    As built, deep networks hardly tell images apart, and few of the classes win any pixel: an
    engine that is wrong in all others would be verified.

    Raises:
        ModelSourceError: The network is not for images of this size.
    """
    import torch

    try:
        measure_norms(model, images)
    except Exception as err:  # torch repeats no size
        size = "x".join(map(str, images.shape[1:]))
        why = str(err).partition("\n")[0]
        raise ModelSourceError(
            f"'{name}' is not for images of {size}: {type(err).__name__}: {why}",
            hint="--input sets another size, backbone=dict(img_size=…) in arguments the network's",
        ) from err
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


def _check_task(task: str | None) -> None:
    if task in (None, TASK):
        return
    raise ModelSourceError(
        f"codebase_config.task: '{task}' is not a task of mmseg; available: {TASK}",
        hint=did_you_mean(str(task), [TASK]) or f"set task='{TASK}', or remove task",
    )
