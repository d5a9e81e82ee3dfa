"""Random weights with which every output of a model depends on its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.authors.sources import measure_norms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn
    from torch.utils.hooks import RemovableHandle


def spread_outputs(model: nn.Module, heads: Iterable[nn.Module], images: Tensor) -> None:
    """Measure the norms of a model, and initialise heads so that outputs depend on the image.

    As libraries initialise them, heads return nearly the same numbers for every image: a wrong
    engine would be verified. Here the outputs of each convolution and linear layer of the heads
    have the standard deviation ¼ in the layer's first call.

    Args:
        model: A module that calls all layers for a batch of images.
        heads: The parts of the model to initialise, such as its neck and its heads.
        images: The images, ``N×C×H×W float32``, more than one.

    Example:
        >>> import torch
        >>> layer = torch.nn.Linear(4, 3)
        >>> images = torch.randn(64, 4)
        >>> spread_outputs(layer, [layer], images)
        >>> round(layer(images).std().item(), 3)
        0.25
    """
    import torch
    from torch import nn

    def scale(layer: Any, _: object, result: Tensor) -> Tensor:
        hooks.pop(layer).remove()
        deviation = result.std() * 4
        layer.weight.data /= deviation
        return result / deviation

    hooks: dict[nn.Module, RemovableHandle] = {}
    for head in heads:
        for part in head.modules():
            if isinstance(part, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                nn.init.normal_(part.weight)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
                hooks[part] = part.register_forward_hook(scale)
    count = len(hooks)
    measure_norms(model, images)
    if len(hooks) == count:  # a model without norms was not called
        with torch.no_grad():
            model(images)
    for hook in hooks.values():
        hook.remove()
