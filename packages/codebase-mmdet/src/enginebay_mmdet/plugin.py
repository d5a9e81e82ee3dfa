"""The plugin: a model source (function that builds a model), and rewriters of its models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ModelRequest, RewritersRequest


@eb.hookimpl
def model_sources() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return, for the scheme ``mmdet``, the function that imports mmdet and builds a model."""
    from enginebay_mmdet.source import build_detector

    return {"mmdet": build_detector}


@eb.hookimpl
def codebase_checks() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return the function that checks the ``codebase_config`` of mmdet, without mmdet."""
    from enginebay_mmdet.source import check_section

    return {"mmdet": check_section}


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every engine
    """Return the rewriters of detectors; an empty set if this process has built no detector."""
    from enginebay_mmdet.library import MMDET

    return MMDET.rewriters("detector")
