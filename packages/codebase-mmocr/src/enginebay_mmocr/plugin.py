"""The plugin: a model source (function that builds a model), and the rewriters of its models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.hooks import ModelRequest, RewritersRequest


@eb.hookimpl
def model_sources() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return, for the scheme ``mmocr``, the function that imports mmocr and builds a model."""
    from enginebay_mmocr.source import build_reader

    return {"mmocr": build_reader}


@eb.hookimpl
def codebase_checks() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return the function that checks the ``codebase_config`` of mmocr, without mmocr."""
    from enginebay_mmocr.library import MMOCR
    from enginebay_mmocr.source import ReaderOptions

    return {"mmocr": partial(MMOCR.read_options, kind=ReaderOptions)}


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every engine
    """Return the rewriters; an empty set if this process has built no recogniser."""
    from enginebay_mmocr.library import MMOCR

    return MMOCR.rewriters("recogniser")
