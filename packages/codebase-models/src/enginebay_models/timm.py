"""``timm:NAME``: any model of timm; the name may omit the weights' tag, such as ``.a1_in1k``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors.sources import (
    fixed_seed,
    image_size,
    load_weights,
    measure_norms,
    no_model_error,
    read_options,
)
from enginebay_models.library import import_library, wrap_download_errors
from enginebay_models.tasks import timm_task

if TYPE_CHECKING:
    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest
    from enginebay_models.records import Record


def build_model(request: ModelRequest) -> tuple[nn.Module, Tensor, Record | None, str]:
    """Build a model of timm.

    Returns:
        The model; an example image, ``1×C×H×W float32``; the image task, or None for a model that
        is not a supported classifier; and the origin of the weights as text.

    Raises:
        ModelSourceError: timm has no such model, or ``codebase_config`` is wrong.
        MissingDependencyError: timm is missing or cannot be imported.
    """
    options = read_options(request)
    timm = import_library("timm")
    if not timm.is_model(request.name):
        raise no_model_error("timm", request.name, timm.list_models())
    import torch

    trained_at = timm.get_pretrained_cfg(request.name)
    size_requested = image_size(request)
    arguments = _size_arguments(trained_at, size_requested) | options.arguments
    with fixed_seed():
        with wrap_download_errors(f"timm:{request.name}"):
            model = timm.create_model(request.name, pretrained=options.pretrained, **arguments)
        shape = size_requested or model.pretrained_cfg["input_size"]
        image = torch.rand(1, *shape)
        if options.checkpoint:
            load_weights(model, options.checkpoint)
        elif not options.pretrained:
            measure_norms(model, torch.rand(4, *image.shape[1:]))
    return model.eval(), image, timm_task(timm.data, model, tuple(shape)), options.weights


def _size_arguments(trained_at: Any, size_requested: tuple[int, int, int] | None) -> dict[str, Any]:
    """Return the arguments that ``timm.create_model`` needs for the requested size, if any."""
    if (
        trained_at is None
        or size_requested is None
        or size_requested == tuple(trained_at.input_size)
    ):
        return {}
    arguments: dict[str, Any] = {}
    if size_requested[0] != trained_at.input_size[0]:
        arguments["in_chans"] = size_requested[0]
    if trained_at.fixed_input_size:
        arguments["img_size"] = size_requested[1:]
    return arguments
