"""The plugin: a model source (function that builds a model), and the rewriter of its models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ModelRequest, RewritersRequest


@eb.hookimpl
def model_sources() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return, for the scheme ``mmseg``, the function that imports mmseg and builds a model."""
    from enginebay_mmseg.source import build_segmenter

    return {"mmseg": build_segmenter}


@eb.hookimpl
def codebase_checks() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return the function that checks the ``codebase_config`` of mmseg, without mmseg."""
    from enginebay_mmseg.library import MMSEG
    from enginebay_mmseg.source import SegmenterOptions

    return {"mmseg": partial(MMSEG.read_options, kind=SegmenterOptions)}


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every engine
    """Return the rewriter of segmenters; an empty set if this process has built no segmenter."""
    from enginebay_mmseg.library import MMSEG

    return MMSEG.rewriters("segmenter")
