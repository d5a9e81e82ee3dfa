"""What Enginebay finds through the entry point: one model source for each library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay_models import timm, torchvision, transformers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ModelRequest


@eb.hookimpl
def model_sources() -> Mapping[str, Callable[[ModelRequest], Any]]:
    """The three libraries; each is imported when one of its models is asked for."""
    return {
        "timm": timm.build,
        "torchvision": torchvision.build,
        "transformers": transformers.build,
    }
