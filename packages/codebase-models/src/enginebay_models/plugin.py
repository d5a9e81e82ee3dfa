"""The plugin: a model source (function that builds a model) for each library."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ModelRequest


@eb.hookimpl
def model_sources() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return, for each library, the function that imports the library and builds a model."""
    from enginebay_models import timm, torchvision, transformers

    return {
        "timm": timm.build_model,
        "torchvision": torchvision.build_model,
        "transformers": transformers.build_model,
    }


@eb.hookimpl
def codebase_checks() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return, for each library, the function that checks its ``codebase_config``, without it."""
    from enginebay.authors.sources import read_options
    from enginebay_models.torchvision_options import DetectorOptions

    of_torchvision = partial(read_options, kind=DetectorOptions)
    return {"timm": read_options, "torchvision": of_torchvision, "transformers": read_options}
