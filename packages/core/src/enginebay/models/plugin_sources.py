"""The model that is meant, where it may come from a plugin."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelSourceError
from enginebay.hooks import ModelRequest
from enginebay.models.sources import is_file, load_model
from enginebay.plugins import KNOWN_MODEL_SOURCES, contributed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.models.sources import ModelSource
    from enginebay.params import Shapes


def find_model(
    model: Any, codebase_config: Mapping[str, Any] | None = None, shapes: Shapes | None = None
) -> ModelSource:
    """Find the model that is meant, with the help of plugins.

    Args:
        model: An object, a file, or text as for :func:`~enginebay.models.sources.load_model`; or
            ``SCHEME:NAME`` for the model source of a plugin.
        codebase_config: Whose model it is: a bare name, or a ``.py`` file without an attribute,
            stands for ``TYPE:NAME``.
        shapes: The usual shapes that were requested.

    Raises:
        ModelSourceError: The text leads nowhere, or no plugin serves the codebase.
    """
    if not isinstance(model, str) or is_file(model):
        return load_model(model)
    schemes = contributed("model_sources")
    codebase = (codebase_config or {}).get("type")
    if codebase and codebase not in schemes and names_codebase(model, codebase):
        known = ", ".join(schemes) or "none"
        raise ModelSourceError(
            f"'{model}' is a model of '{codebase}', as the config says, and no installed plugin "
            f"has this model source; there is {known}",
            hint=f"{_how_to_install(codebase)}, or name the model as file.py:attr",
        )
    if codebase and _is_bare(model):
        model = f"{codebase}:{model}"
    scheme = model.partition(":")[0]
    request = partial(
        ModelRequest,
        codebase_config=codebase_config if codebase_config and scheme == codebase else {},
        input_shapes=shapes or {},
    )
    if build := schemes.get(scheme):
        return load_model(model, schemes={scheme: lambda name: build(request(name=name))})
    try:
        return load_model(model)
    except ModelSourceError as err:
        if scheme not in KNOWN_MODEL_SOURCES:
            raise
        raise ModelSourceError(
            f"'{model}' names a model of {scheme}, and no installed plugin has this model source",
            hint=_how_to_install(scheme),
        ) from err


def _how_to_install(scheme: str) -> str:
    """Advice about a missing source; a package that may not exist is not named."""
    known = KNOWN_MODEL_SOURCES.get(scheme)
    return f"pip install {known}" if known else "install the package that has it"


def names_codebase(model: str, codebase: str) -> bool:
    """True where a text names a model of the codebase that a config says."""
    return _is_bare(model) or model.startswith(f"{codebase}:")


def _is_bare(model: str) -> bool:
    """True where the text is neither an attribute of something nor a file that is a model.

    A ``.py`` file is a codebase's model config where no attribute in it is named.
    """
    return ":" not in model and (model.endswith(".py") or not set("/\\.") & set(model))
