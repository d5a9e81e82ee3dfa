"""Builders of models and their example inputs from tables of names and options."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.zoo.models import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Options that a config with different names for sizes refuses.
_OWN_SIZES = ("max_position_embeddings", "num_hidden_layers", "hidden_size", "num_attention_heads")


def backbone(name: str, side: int) -> tuple[Any, Any]:
    """Return a timm model by name, and an image of that side."""
    import timm
    import torch

    return timm.create_model(name, pretrained=False), torch.randn(1, 3, side, side)


def architecture(
    kind: str, inputs: Callable[[], Any], config: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Return a model of transformers with its random initial weights.

    Args:
        kind: The class.
        inputs: Makes its inputs.
        config: Its config on top of the zoo's ``SMALL``.
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
    """Return a model of a package, and noise between 0 and 1 of these shapes."""
    import torch

    module, _, kind = place.rpartition(".")
    model = getattr(import_module(module), kind)(*arguments, **options)
    return model, tuple(torch.rand(shape) for shape in shapes)
