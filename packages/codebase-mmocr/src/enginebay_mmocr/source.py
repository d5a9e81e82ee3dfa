"""``mmocr:NAME`` and ``mmocr:CONFIG.py``: text detectors and recognisers of mmocr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from enginebay.authors.files import quiet
from enginebay.authors.sources import Options, fixed_seed, image_size, load_weights, measure_norms
from enginebay.errors import ModelSourceError
from enginebay_mmocr.library import DETECTION, MMOCR, find_task
from enginebay_mmocr.task import make_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from enginebay.hooks import ModelRequest


class ReaderOptions(Options, frozen=True, kw_only=True):
    """The keys of ``codebase_config``; ``task`` must be the task of the model."""

    task: Literal["TextDetection", "TextRecognition"] | None = None


def build_reader(
    request: ModelRequest,
) -> tuple[nn.Module, Tensor, dict[str, object] | None, str]:
    """Build a text detector or recogniser.

    Returns:
        The model; an example image, ``1×C×H×W float32``; a recogniser's image task, None for a
        detector; and the origin of the weights as text.

    Raises:
        ModelSourceError: The model does not exist, or ``codebase_config`` is wrong.
        MissingDependencyError: mmocr is missing or cannot be imported.
    """
    options = MMOCR.read_options(request, ReaderOptions)
    config = MMOCR.read_config(request.name, options.arguments)
    kind = find_task(config, request.name)
    if options.task not in (None, kind):
        raise ModelSourceError(
            f"codebase_config.task: '{request.name}' is not for {options.task}, but for {kind}",
            hint=f"set task='{kind}', or remove task",
        )
    size = image_size(request) or read_image_size(config)
    import torch

    with quiet(), fixed_seed():
        network: Any = MMOCR.build(config, request.name)
        model = _wrap_network(network, kind).eval()
        if options.checkpoint:
            load_weights(network, options.checkpoint)
        _try_model(model, torch.randn(2, *size), request.name, spread=not options.checkpoint)
        # Noise with mean 0 and deviation 1, since the model expects normalised images.
        image = torch.randn(1, *size)
    task = None if kind == DETECTION else make_task(config, size, network.decoder.dictionary)
    return model, image, task, options.weights


def read_image_size(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the channels, height and width of the images that a config trains with.

    Example:
        >>> steps = [{"type": "LoadImageFromFile", "color_type": "grayscale"}]
        >>> steps.append({"type": "Resize", "scale": (100, 32)})
        >>> read_image_size({"train_pipeline": steps})
        (1, 32, 100)
    """
    channels, width, height = 3, 640, 640
    for step in config.get("train_pipeline", ()):
        if step.get("color_type") == "grayscale":
            channels = 1
        # The width comes first. Ranges of sizes are pairs of pairs.
        for key in ("scale", "target_size", "size"):
            value = step.get(key)
            if isinstance(value, (list, tuple)) and all(isinstance(side, int) for side in value):
                width, height = value
        if step["type"] == "RescaleToHeight":
            height = step["height"]
        elif step["type"] == "PadToWidth":
            width = step["width"]
    return channels, height, width


def _wrap_network(network: Any, kind: str) -> nn.Module:
    # A recogniser's module is imported with the first one: the package's rewriters are for it.
    if kind == DETECTION:
        from enginebay_mmocr.detector import Detector

        return Detector(network)
    from enginebay_mmocr.recogniser import Recogniser

    return Recogniser(network)


def _try_model(model: nn.Module, images: Tensor, name: str, *, spread: bool) -> None:
    """Run a model, which may initialise its weights.

    Raises:
        ModelSourceError: The model is not for images of this size, lacks an operator of mmcv, or
            does not return a tensor.
    """
    import torch

    try:
        if spread:
            _spread_outputs(model, images)
        with torch.no_grad():
            found = model(images)
    except ModelSourceError:  # an operator that this mmcv lacks
        raise
    except Exception as err:  # a network checks its images in its own way
        size = "x".join(map(str, images.shape[1:]))
        why = " ".join(f"{type(err).__name__}: {err}".split())[:300]
        raise ModelSourceError(
            f"'{name}' cannot be run with images of {size}: {why}",
            hint="--input sets another size",
        ) from err
    if not isinstance(found, torch.Tensor):
        raise ModelSourceError(
            f"'{name}' returns a {type(found).__name__}; expected one tensor of maps"
        )


def _spread_outputs(model: nn.Module, images: Tensor) -> None:
    """Measure the norms, and initialise the last layer so that each of its outputs varies.

    As built, nearly all images get the same text, and all texts nearly the same scores: an engine
    that is wrong in all others would be verified.
    """
    import torch
    from torch import nn

    kinds = nn.Linear | nn.Conv1d | nn.Conv2d | nn.ConvTranspose2d
    called: list[nn.Module] = []
    hooks = [
        part.register_forward_hook(lambda layer, *_: called.append(layer))
        for part in model.modules()
        if isinstance(part, kinds)
    ]
    measure_norms(model, images)
    for hook in hooks:
        hook.remove()
    last: Any = called[-1]
    values: list[Tensor] = []  # of every step, if the model reads its own output
    axis = -1 if isinstance(last, nn.Linear) else 1
    hook = last.register_forward_hook(lambda _, __, out: values.append(out.movedim(axis, -1)))
    with torch.no_grad():
        model(images)
        hook.remove()
        every = torch.cat([value.flatten(0, -2) for value in values])
        mean, deviation = every.mean(0), every.std(0).clamp(min=1e-6)
        channel = 1 if isinstance(last, nn.ConvTranspose2d) else 0
        last.weight.movedim(channel, -1).div_(deviation)
        if last.bias is not None:
            last.bias.copy_((last.bias - mean) / deviation)
