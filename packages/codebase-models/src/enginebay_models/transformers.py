"""``transformers:NAME``: a model type, a class, or a folder with a ``config.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.authors.sources import (
    Options,
    fixed_seed,
    image_size,
    load_weights,
    no_model_error,
    read_options,
)
from enginebay.errors import ModelSourceError
from enginebay_models.example_inputs import example_inputs
from enginebay_models.image_processors import transformers_task
from enginebay_models.library import import_library, wrap_download_errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

    from enginebay.hooks import ModelRequest
    from enginebay_models.records import Record


def build_model(
    request: ModelRequest,
) -> tuple[PreTrainedModel, dict[str, Tensor] | None, Record | None, str]:
    """Build a model of transformers.

    Returns:
        The model; example inputs by name, or None if the kind of input is unknown; the image task,
        or None if the task is unknown; and the origin of the weights as text.

    Raises:
        ModelSourceError: transformers has no such model, or ``codebase_config`` is wrong.
        MissingDependencyError: transformers is missing or cannot be imported.
    """
    options = read_options(request)
    transformers = import_library("transformers")
    size = image_size(request)
    with fixed_seed():
        model = _build_model(transformers, request.name, options, size).eval()
        if options.checkpoint:
            load_weights(model, options.checkpoint)
        inputs = example_inputs(model, size)
    image = inputs.get("pixel_values") if len(inputs) == 1 else None
    task = transformers_task(model, request.name, image) if inputs else None
    own_weights = request.name if _has_weights(request.name) and not options.checkpoint else ""
    return model, inputs or None, task, own_weights or options.weights


def _build_model(
    transformers: ModuleType, name: str, options: Options, size: tuple[int, int, int] | None
) -> PreTrainedModel:
    """Build the model that ``name`` refers to: a model type, a class, a folder or a Hub model."""
    if Path(name, "config.json").is_file():
        return _load_folder(transformers, name, options)
    if "/" in name:
        return _download_model(transformers, name, options)
    if options.pretrained:
        raise ModelSourceError(
            f"'transformers:{name}' is an architecture without weights",
            hint="use a model of the Hugging Face Hub: transformers:OWNER/NAME",
        )
    auto, config = _find_architecture(transformers, name, options.arguments)
    if size and hasattr(config, "image_size"):
        config.num_channels = size[0]
        config.image_size = size[1] if size[1] == size[2] else size[1:]
    return auto(_disable_cache(config))


def _find_architecture(
    transformers: ModuleType, name: str, arguments: dict[str, Any]
) -> tuple[Callable[[PreTrainedConfig], PreTrainedModel], PreTrainedConfig]:
    """Return the function that creates the model from its config, and the config."""
    if name in transformers.CONFIG_MAPPING:
        config = transformers.CONFIG_MAPPING[name](**arguments)
        return transformers.AutoModel.from_config, config
    named: Any = getattr(transformers, name, None)
    bases = getattr(named, "__mro__", ())
    if transformers.PreTrainedConfig in bases:
        return transformers.AutoModel.from_config, named(**arguments)
    if transformers.PreTrainedModel in bases and named.config_class is not None:
        return named, named.config_class(**arguments)
    raise no_model_error("transformers", name, [*transformers.CONFIG_MAPPING, *dir(transformers)])


def _load_folder(transformers: ModuleType, folder: str, options: Options) -> PreTrainedModel:
    # Nothing is downloaded unless it is requested.
    config = transformers.AutoConfig.from_pretrained(
        folder, local_files_only=True, **options.arguments
    )
    names = config.architectures or ["AutoModel"]
    kind = getattr(transformers, names[0], None)
    if kind is None:
        raise ModelSourceError(
            f"'{folder}' requires {names[0]}, which the installed transformers does not have",
            hint="pip install --upgrade transformers",
        )
    if _has_weights(folder):
        return kind.from_pretrained(folder, config=_disable_cache(config), local_files_only=True)
    create = kind.from_config if names == ["AutoModel"] else kind
    return create(_disable_cache(config))


def _has_weights(folder: str) -> bool:
    return Path(folder, "config.json").is_file() and any(Path(folder).glob("*.safetensors"))


def _download_model(transformers: ModuleType, name: str, options: Options) -> PreTrainedModel:
    if not options.pretrained:
        raise ModelSourceError(
            f"'{name}' is neither a local folder with a config.json nor an architecture; the model "
            "of this name on the Hugging Face Hub is downloaded only on request",
            hint=f"--pretrained, or transformers:{name}?pretrained",
        )
    with wrap_download_errors(f"transformers:{name}"):
        config = transformers.AutoConfig.from_pretrained(name, **options.arguments)
        names = config.architectures or ["AutoModel"]
        return getattr(transformers, names[0]).from_pretrained(name, config=_disable_cache(config))


def _disable_cache(config: PreTrainedConfig) -> PreTrainedConfig:
    # The cache of keys and values would add outputs for each layer.
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config
