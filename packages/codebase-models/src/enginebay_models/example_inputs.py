"""Creates example inputs for a model of transformers from the model's config."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

IMAGE_SIZE = 224
TOKEN_COUNT = 16
SAMPLE_COUNT = 16_000  # one second of sound at the sampling rate of the feature extractors
MEL_BINS = 80


def example_inputs(model: PreTrainedModel, size: tuple[int, int, int] | None) -> dict[str, Tensor]:
    """Return example inputs by name; an empty dict if the kind of the main input is unknown.

    Images are ``1×C×H×W float32``, tokens are ``1×16 int64``, sound is ``1×16000 float32`` or a
    spectrogram. ``size`` is the channels, height and width of images; None for the config's size.
    """
    makers = {
        "pixel_values": lambda: _make_image(model.config, size),
        "input_ids": lambda: _make_tokens(model.config),
        "input_values": lambda: _make_sound(model.config),
        "input_features": lambda: _make_features(model.config),
    }
    main = model.main_input_name
    if main not in makers:
        return {}
    inputs = {main: makers[main]()}
    if main == "input_ids":
        inputs |= _make_text_inputs(model, inputs[main], size)
    if main == "input_features":
        inputs |= _make_decoder_inputs(model)
    return inputs


def _make_text_inputs(
    model: PreTrainedModel, ids: Tensor, size: tuple[int, int, int] | None
) -> dict[str, Tensor]:
    import torch

    parameters = signature(model.forward).parameters
    inputs = {}
    if "attention_mask" in parameters:
        inputs["attention_mask"] = torch.ones_like(ids)
    if "pixel_values" in parameters and hasattr(model.config, "vision_config"):
        inputs["pixel_values"] = _make_image(model.config.vision_config, size)
    return inputs | _make_decoder_inputs(model)


def _make_decoder_inputs(model: PreTrainedModel) -> dict[str, Tensor]:
    parameters = signature(model.forward).parameters
    if not model.config.is_encoder_decoder or "decoder_input_ids" not in parameters:
        return {}
    return {"decoder_input_ids": _make_tokens(model.config)}


def _make_tokens(config: PreTrainedConfig) -> Tensor:
    import torch

    vocabulary = config.get_text_config().vocab_size
    return torch.randint(min(3, vocabulary - 1), vocabulary, (1, TOKEN_COUNT))


def _make_image(config: PreTrainedConfig, size: tuple[int, int, int] | None) -> Tensor:
    import torch

    sides = getattr(config, "image_size", None) or IMAGE_SIZE
    height, width = (sides, sides) if isinstance(sides, int) else sides
    return torch.rand(1, *(size or (getattr(config, "num_channels", 3), height, width)))


def _make_sound(config: PreTrainedConfig) -> Tensor:
    import torch

    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):  # a spectrogram
        return torch.randn(1, config.max_length, config.num_mel_bins)
    return torch.randn(1, SAMPLE_COUNT)


def _make_features(config: PreTrainedConfig) -> Tensor:
    import torch

    # Whisper's encoder halves the frames once and requires exactly its number of positions.
    frames = 2 * getattr(config, "max_source_positions", TOKEN_COUNT * 4)
    return torch.randn(1, getattr(config, "num_mel_bins", MEL_BINS), frames)
