"""``timm:NAME``: any of timm's models, with or without its tag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors import fixed_seed, image_size, load_weights, measure_norms, read_options
from enginebay_models.library import downloads, library, unknown
from enginebay_models.tasks import timm_task

if TYPE_CHECKING:
    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest
    from enginebay_models.records import Record


def build(request: ModelRequest) -> tuple[nn.Module, Tensor, Record | None, str]:
    """Build a model; an image, ``1×C×H×W float32``, as large as its weights want it; its task.

    Raises:
        ModelSourceError: timm has no such model, or the config is wrong.
        MissingDependencyError: timm is missing or does not import.
    """
    options = read_options(request)
    timm = library("timm")
    if not timm.is_model(request.name):
        raise unknown("timm", request.name, timm.list_models())
    import torch

    trained_at = timm.get_pretrained_cfg(request.name)
    wanted = image_size(request)
    arguments = _sized(trained_at, wanted) | options.arguments
    with fixed_seed():
        with downloads(f"timm:{request.name}"):
            model = timm.create_model(request.name, pretrained=options.pretrained, **arguments)
        shape = wanted or model.pretrained_cfg["input_size"]
        image = torch.rand(1, *shape)
        if options.checkpoint:
            load_weights(model, options.checkpoint)
        elif not options.pretrained:
            measure_norms(model, torch.rand(4, *image.shape[1:]))
    return model.eval(), image, timm_task(timm.data, model, tuple(shape)), options.weights


def _sized(trained_at: Any, wanted: tuple[int, int, int] | None) -> dict[str, Any]:
    """Return the arguments that build the model for an image of another size."""
    if trained_at is None or wanted is None or wanted == tuple(trained_at.input_size):
        return {}
    arguments: dict[str, Any] = {}
    if wanted[0] != trained_at.input_size[0]:
        arguments["in_chans"] = wanted[0]
    if trained_at.fixed_input_size:
        arguments["img_size"] = wanted[1:]
    return arguments
