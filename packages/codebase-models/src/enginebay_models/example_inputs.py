"""Example inputs for a model of transformers, from its config."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

IMAGE_SIZE = 224
TOKENS = 16
SAMPLES = 16_000  # one second of sound, as the feature extractors sample it
MEL_BINS = 80


def example_inputs(model: Any, size: tuple[int, int, int] | None) -> dict[str, Tensor]:
    """Make inputs by name; none if the kind of the model's main input is not known here.

    Images are ``1×C×H×W float32``, tokens ``1×16 int64``, sound is ``1×16000 float32`` or its
    features.
    """
    makers = {
        "pixel_values": lambda: _image(model.config, size),
        "input_ids": lambda: _tokens(model.config),
        "input_values": lambda: _sound(model.config),
        "input_features": lambda: _features(model.config),
    }
    main = model.main_input_name
    if main not in makers:
        return {}
    inputs = {main: makers[main]()}
    if main == "input_ids":
        inputs |= _beside_tokens(model, inputs[main], size)
    if main == "input_features":
        inputs |= _decoder(model)
    return inputs


def _beside_tokens(model: Any, ids: Tensor, size: tuple[int, int, int] | None) -> dict[str, Tensor]:
    import torch

    takes = signature(model.forward).parameters
    beside = {}
    if "attention_mask" in takes:
        beside["attention_mask"] = torch.ones_like(ids)
    if "pixel_values" in takes and hasattr(model.config, "vision_config"):
        beside["pixel_values"] = _image(model.config.vision_config, size)
    return beside | _decoder(model)


def _decoder(model: Any) -> dict[str, Tensor]:
    takes = signature(model.forward).parameters
    if not model.config.is_encoder_decoder or "decoder_input_ids" not in takes:
        return {}
    return {"decoder_input_ids": _tokens(model.config)}


def _tokens(config: Any) -> Tensor:
    import torch

    vocabulary = config.get_text_config().vocab_size
    return torch.randint(min(3, vocabulary - 1), vocabulary, (1, TOKENS))


def _image(config: Any, size: tuple[int, int, int] | None) -> Tensor:
    import torch

    own = getattr(config, "image_size", None) or IMAGE_SIZE
    height, width = (own, own) if isinstance(own, int) else own
    return torch.rand(1, *(size or (getattr(config, "num_channels", 3), height, width)))


def _sound(config: Any) -> Tensor:
    import torch

    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):  # a spectrogram
        return torch.randn(1, config.max_length, config.num_mel_bins)
    return torch.randn(1, SAMPLES)


def _features(config: Any) -> Tensor:
    import torch

    # Whisper's encoder halves the frames once and wants exactly its number of positions.
    frames = 2 * getattr(config, "max_source_positions", TOKENS * 4)
    return torch.randn(1, getattr(config, "num_mel_bins", MEL_BINS), frames)
