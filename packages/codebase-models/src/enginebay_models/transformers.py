"""``transformers:NAME``: a model type, a class, or a folder with a ``config.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.authors import Options, fixed_seed, image_size, load_weights, read_options
from enginebay.errors import ModelSourceError
from enginebay_models.example_inputs import example_inputs
from enginebay_models.image_processors import transformers_task
from enginebay_models.library import downloads, library, unknown

if TYPE_CHECKING:
    from enginebay.hooks import ModelRequest


def build(request: ModelRequest) -> Any:
    """Build a model with its example inputs, task and weights' origin; None for what is not known.

    Raises:
        ModelSourceError: transformers has no such model, or the config is wrong.
        MissingDependencyError: transformers is missing or does not import.
    """
    options = read_options(request)
    transformers = library("transformers")
    size = image_size(request)
    with fixed_seed():
        model = _model(transformers, request.name, options, size).eval()
        if options.checkpoint:
            load_weights(model, options.checkpoint)
        inputs = example_inputs(model, size)
    image = inputs.get("pixel_values") if len(inputs) == 1 else None
    task = transformers_task(model, request.name, image) if inputs else None
    own = request.name if _has_weights(request.name) and not options.checkpoint else ""
    return model, inputs or None, task, own or options.weights


def _model(
    transformers: Any, name: str, options: Options, size: tuple[int, int, int] | None
) -> Any:
    """Build the model of a type, a class, a folder or the Hub."""
    if Path(name, "config.json").is_file():
        return _from_folder(transformers, name, options)
    if "/" in name:
        return _from_hub(transformers, name, options)
    if options.pretrained:
        raise ModelSourceError(
            f"'transformers:{name}' is an architecture, which has no weights of its own",
            hint="name a model of the Hub: transformers:OWNER/NAME",
        )
    auto, config = _architecture(transformers, name, options.arguments)
    if size and hasattr(config, "image_size"):
        config.num_channels = size[0]
        config.image_size = size[1] if size[1] == size[2] else size[1:]
    return auto(_without_cache(config))


def _architecture(transformers: Any, name: str, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Return the function that makes the model from its config, and the config."""
    if name in transformers.CONFIG_MAPPING:
        config = transformers.CONFIG_MAPPING[name](**arguments)
        return transformers.AutoModel.from_config, config
    found: Any = getattr(transformers, name, None)
    bases = getattr(found, "__mro__", ())
    if transformers.PreTrainedConfig in bases:
        return transformers.AutoModel.from_config, found(**arguments)
    if transformers.PreTrainedModel in bases and found.config_class is not None:
        return found, found.config_class(**arguments)
    raise unknown("transformers", name, [*transformers.CONFIG_MAPPING, *dir(transformers)])


def _from_folder(transformers: Any, folder: str, options: Options) -> Any:
    """Load the model of a local folder, with its weights if it has some."""
    config = transformers.AutoConfig.from_pretrained(
        folder, local_files_only=True, **options.arguments
    )
    names = config.architectures or ["AutoModel"]
    kind = getattr(transformers, names[0], None)
    if kind is None:
        raise ModelSourceError(
            f"'{folder}' is for {names[0]}, which this transformers does not have"
        )
    if _has_weights(folder):
        return kind.from_pretrained(folder, config=_without_cache(config), local_files_only=True)
    make = kind.from_config if names == ["AutoModel"] else kind
    return make(_without_cache(config))


def _has_weights(folder: str) -> bool:
    return Path(folder, "config.json").is_file() and any(Path(folder).glob("*.safetensors"))


def _from_hub(transformers: Any, name: str, options: Options) -> Any:
    if not options.pretrained:
        raise ModelSourceError(
            f"'{name}' is neither a local folder with a config.json nor an architecture; the model "
            "of the Hub with this name is downloaded only where you ask for it",
            hint=f"--pretrained (transformers:{name}?pretrained)",
        )
    with downloads(f"transformers:{name}"):
        config = transformers.AutoConfig.from_pretrained(name, **options.arguments)
        names = config.architectures or ["AutoModel"]
        return getattr(transformers, names[0]).from_pretrained(name, config=_without_cache(config))


def _without_cache(config: Any) -> Any:
    """Turn off the cache of keys and values, which would add outputs to each layer."""
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config
