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
    """Return, for the scheme ``mmpretrain``, the function that builds a model of mmpretrain."""
    from enginebay_mmpretrain.source import build_classifier

    return {"mmpretrain": build_classifier, "mmcls": build_classifier}  # its name before version 1


@eb.hookimpl
def codebase_checks() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return the function that checks the ``codebase_config`` of mmpretrain, without mmpretrain."""
    from enginebay.authors.sources import read_options
    from enginebay_mmpretrain.source import ClassifierOptions

    check = partial(read_options, kind=ClassifierOptions)
    return {"mmpretrain": check, "mmcls": check}


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every engine
    """Return the rewriter of classifiers; an empty set if this process has built no classifier."""
    from enginebay_mmpretrain.library import MMPRETRAIN

    return MMPRETRAIN.rewriters("classifier")
