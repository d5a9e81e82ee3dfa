"""What a table of names and options becomes: models and their example inputs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.zoo.models import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: What a config with names of its own for sizes refuses.
_OWN_SIZES = ("max_position_embeddings", "num_hidden_layers", "hidden_size", "num_attention_heads")


def backbone(name: str, side: int) -> tuple[Any, Any]:
    """One by timm's name, and a picture of that side."""
    import timm
    import torch

    return timm.create_model(name, pretrained=False), torch.randn(1, 3, side, side)


def architecture(
    kind: str, inputs: Callable[[], Any], config: Mapping[str, Any]
) -> tuple[Any, Any]:
    """A class of transformers with random weights, as it starts them.

    Args:
        kind: The class.
        inputs: Makes its inputs.
        config: What its config gets besides the zoo's ``SMALL``.
    """
    import transformers

    transformers.logging.set_verbosity_error()
    found: Any = getattr(transformers, kind)
    own = ("num_labels", *(_OWN_SIZES if "d_inner" in config else ()))
    common = {key: value for key, value in SMALL.items() if key not in own}
    return found(found.config_class(**{**common, **config})), inputs()


def by_class(
    place: str,
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    shapes: tuple[tuple[int, ...], ...],
) -> tuple[Any, Any]:
    """A class of a package, and noise between 0 and 1 of these shapes."""
    import torch

    module, _, kind = place.rpartition(".")
    model = getattr(import_module(module), kind)(*arguments, **options)
    return model, tuple(torch.rand(shape) for shape in shapes)
