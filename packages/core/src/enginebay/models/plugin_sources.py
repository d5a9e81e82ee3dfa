"""The model that is meant, where it may come from a plugin."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelSourceError
from enginebay.hooks import ModelRequest
from enginebay.models.named_weights import name_weights, split_weights
from enginebay.models.sources import is_file, load_model
from enginebay.models.weights import describe_weights, load_weights
from enginebay.plugins import KNOWN_MODEL_SOURCES, OTHER_WORDS, contributed

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
            ``SCHEME:NAME`` for the model source of a plugin. Text may ask for weights:
            ``SCHEME:NAME?pretrained``, ``file.py:attr?weights=FILE``.
        codebase_config: Whose model it is: a bare name, or a ``.py`` file without an attribute,
            stands for ``TYPE:NAME``.
        shapes: The usual shapes that were requested.

    Raises:
        ModelSourceError: The text leads nowhere, or no plugin serves the codebase.
    """
    if not isinstance(model, str):
        return load_model(model)
    name, asked = split_weights(model)
    if is_file(name):
        if asked:
            raise ModelSourceError(
                f"'{name}' is a file with weights of its own",
                hint=f"leave out what follows it: {name}",
            )
        return load_model(name)
    section = dict(codebase_config or {})
    schemes = contributed("model_sources")
    codebase = section.get("type")
    if codebase and codebase not in schemes and names_codebase(name, codebase):
        known = ", ".join(schemes) or "none"
        raise ModelSourceError(
            f"'{name}' is a model of '{codebase}', as the config says, and no installed plugin "
            f"has this model source; there is {known}",
            hint=f"{_how_to_install(codebase)}, or name the model as file.py:attr",
        )
    if codebase and _is_bare(name):
        name = f"{codebase}:{name}"
    scheme = name.partition(":")[0]
    if build := schemes.get(scheme):
        chosen = (section if scheme == codebase else {}) | asked
        request = partial(ModelRequest, codebase_config=chosen, input_shapes=shapes or {})
        found = load_model(name, schemes={scheme: lambda text: build(request(name=text))})
        return _with_weights(found, chosen)
    if "pretrained" in asked:
        raise ModelSourceError(
            f"'{name}' is code of your own: nobody publishes weights for it",
            hint=f"--weights FILE loads yours: {name}?weights=FILE",
        )
    found = _load(name, scheme)
    if "checkpoint" in asked:
        load_weights(found.module, asked["checkpoint"])
    return _with_weights(found, asked)


def _load(name: str, scheme: str) -> ModelSource:
    """Load a model that no plugin serves; of a known plugin's, say how to install it."""
    try:
        return load_model(name)
    except ModelSourceError as err:
        if other := OTHER_WORDS.get(scheme):
            err.hint = f"did you mean '{other}:{name.partition(':')[2]}'?"
        elif _is_library_name(name):
            sources = (f"{source}:{name}" for source in KNOWN_MODEL_SOURCES if source[:2] != "mm")
            err.hint = f"with the library that has it in front: {', '.join(sources)}"
        if scheme not in KNOWN_MODEL_SOURCES:
            raise
        raise ModelSourceError(
            f"'{name}' names a model of {scheme}, and no installed plugin has this model source",
            hint=_how_to_install(scheme),
        ) from err


def _with_weights(found: ModelSource, chosen: Mapping[str, Any]) -> ModelSource:
    """Return the source with a name that leads to the same weights, and with what they are."""
    file, pretrained = chosen.get("checkpoint"), bool(chosen.get("pretrained"))
    weights = describe_weights(file) if file else found.weights
    named = name_weights(found.named, pretrained=pretrained, file=file or "")
    return replace(found, named=named, weights=weights)


def _is_library_name(name: str) -> bool:
    """True for ``resnet18`` and ``google/vit-base-patch16-224``, which are no files here."""
    return bool(re.fullmatch(r"[\w-]+(/[\w.-]+)?", name)) and not Path(name).exists()


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
