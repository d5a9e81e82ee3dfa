"""The plugin: a model source (function that builds a model), and rewriters of its models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ModelRequest, RewritersRequest


@eb.hookimpl
def model_sources() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return, for the scheme ``mmpose``, the function that imports mmpose and builds a model."""
    from enginebay_mmpose.source import build_estimator

    return {"mmpose": build_estimator}


@eb.hookimpl
def codebase_checks() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return the function that checks the ``codebase_config`` of mmpose, without mmpose."""
    from enginebay_mmpose.source import check_section

    return {"mmpose": check_section}


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every engine
    """Return the rewriters of estimators; an empty set if this process has built no estimator."""
    from enginebay_mmpose.library import MMPOSE

    return MMPOSE.rewriters("estimator")
