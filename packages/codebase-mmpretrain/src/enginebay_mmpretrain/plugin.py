"""What Enginebay finds through the entry point: the model source, and the rewriter it needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ModelRequest, RewritersRequest


@eb.hookimpl
def model_sources() -> Mapping[str, Callable[[ModelRequest], Any]]:
    """One scheme; mmpretrain is imported when one of its models is asked for."""
    from enginebay_mmpretrain.source import build

    return {"mmpretrain": build}


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every engine
    """The deployed form of a classifier; nothing where none was built, so that none is missed."""
    if "enginebay_mmpretrain.classifier" not in sys.modules:
        return eb.RewriterSet()
    from enginebay_mmpretrain.rewriters import REWRITERS

    return REWRITERS
