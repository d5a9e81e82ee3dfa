"""Find a model by its name, also in the model sources of plugins."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelSourceError
from enginebay.hooks import ModelRequest
from enginebay.installation import install_command
from enginebay.plugins import contributed, known_packages, usual_name
from enginebay.sources.named_weights import name_weights, split_weights
from enginebay.sources.sources import is_file, load_model
from enginebay.sources.weights import describe_weights, load_weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.params import Shapes
    from enginebay.sources.sources import ModelSource


def find_model(
    model: object, codebase_config: Mapping[str, Any] | None = None, shapes: Shapes | None = None
) -> ModelSource:
    """Find and load a model, also from the model sources of plugins.

    Args:
        model: An object, a file, or a name as for :func:`~enginebay.sources.sources.load_model`; or
            ``SCHEME:NAME`` for the model source of a plugin. A name may request weights:
            ``SCHEME:NAME?pretrained``, ``file.py:attr?weights=FILE``.
        codebase_config: The section ``codebase_config`` of a config. Its ``type`` is added
            as the scheme to a name without scheme, and to a ``.py`` file without an attribute.
        shapes: Input name → requested usual shape.

    Raises:
        ModelSourceError: The model does not exist, or no plugin provides the codebase.
    """
    if not isinstance(model, str):
        return load_model(model)
    name, requested = split_weights(model)
    if is_file(name):
        if requested:
            raise ModelSourceError(
                f"'{name}' is a file that contains weights, which cannot be replaced",
                hint=f"pass only the file: {name}",
            )
        return load_model(name)
    section = dict(codebase_config or {})
    schemes = contributed("model_sources")
    codebase = section.get("type")
    if codebase and codebase not in schemes and names_codebase(name, codebase):
        known = ", ".join(schemes) or "none"
        raise ModelSourceError(
            f"'{name}' is a model of '{codebase}' according to the config, but no installed plugin "
            f"provides this model source; available: {known}",
            hint=f"{_how_to_install(codebase)}, or name the model as file.py:attr",
        )
    if codebase and _is_bare(name):
        name = f"{codebase}:{name}"
    scheme = name.partition(":")[0]
    if build := schemes.get(scheme):
        chosen = (section if scheme == codebase else {}) | requested
        request = partial(ModelRequest, codebase_config=chosen, input_shapes=shapes or {})
        source = load_model(name, schemes={scheme: lambda text: build(request(name=text))})
        return _add_weights(source, chosen)
    if "pretrained" in requested:
        raise ModelSourceError(
            f"'{name}' is your own code, which has no pretrained weights",
            hint=f"pass a weights file: --weights FILE, or {name}?weights=FILE",
        )
    source = _load_without_plugin(name, scheme)
    if "checkpoint" in requested:
        load_weights(source.module, requested["checkpoint"])
    return _add_weights(source, requested)


def _load_without_plugin(name: str, scheme: str) -> ModelSource:
    """Load a model without a plugin; if that fails, the hint lists plugins that may load it."""
    try:
        return load_model(name)
    except ModelSourceError as err:
        known = known_packages("model_sources")
        if other := usual_name(scheme):
            err.hint = f"did you mean '{other}:{name.partition(':')[2]}'?"
        elif _is_library_name(name):
            # Not OpenMMLab's, whose models are named by configs.
            sources = (f"{source}:{name}" for source in known if source[:2] != "mm")
            err.hint = f"write the name of the library before the model: {', '.join(sources)}"
        if scheme not in known:
            raise
        raise ModelSourceError(
            f"'{name}' is a model of {scheme}, but no installed plugin provides this model source",
            hint=_how_to_install(scheme),
        ) from err


def _add_weights(source: ModelSource, options: Mapping[str, Any]) -> ModelSource:
    file, pretrained = options.get("checkpoint"), bool(options.get("pretrained"))
    weights = describe_weights(file) if file else source.weights
    named = name_weights(source.named, pretrained=pretrained, file=file or "")
    return replace(source, named=named, weights=weights)


def _is_library_name(name: str) -> bool:
    """Return True for a name such as ``resnet18`` or ``google/vit-base``, but not for a file."""
    return bool(re.fullmatch(r"[\w-]+(/[\w.-]+)?", name)) and not Path(name).exists()


def _how_to_install(scheme: str) -> str:
    # Only known packages: another name may not exist, or be a stranger's package.
    known = known_packages("model_sources").get(scheme)
    return install_command(known) if known else "install the package of the model source"


def names_codebase(model: str, codebase: str) -> bool:
    """Return True if a text may be the name of a model of this codebase."""
    return _is_bare(model) or model.startswith(f"{codebase}:")


def _is_bare(model: str) -> bool:
    """Return True for a ``.py`` file, and for a name without scheme, folder and suffix."""
    return ":" not in model and (model.endswith(".py") or not set("/\\.") & set(model))
