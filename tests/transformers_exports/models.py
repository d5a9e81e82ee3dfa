"""The models: small ones of the zoo and of its kind, with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.zoo.models import GROUPED, SMALL, ZOO, grow, pixels

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    Sample = dict[str, torch.Tensor]


class Case(NamedTuple):
    """A model, and how it is exported.

    Attributes:
        architecture: The class in transformers; empty for that of the zoo.
        config: Its config on top of that of the zoo.
        sample: Makes the arguments of ``generate``; None for a model that is exported whole, from
            the example of the zoo in a batch of two.
        base: The name in the zoo; empty for the case's own name.
    """

    architecture: str = ""
    config: dict[str, Any] = {}
    sample: Callable[[], Sample] | None = None
    base: str = ""


def padded() -> Sample:
    """Three prompts, of which the last is padded on the left."""
    import torch

    ids = torch.randint(3, 98, (3, 7))
    mask = torch.ones_like(ids)
    mask[2, :2] = 0
    return {"input_ids": ids, "attention_mask": mask}


def unpadded() -> Sample:
    """Three prompts without padding."""
    sample = padded()
    return sample | {"attention_mask": sample["attention_mask"] * 0 + 1}


def sound() -> Sample:
    """Two spectrograms."""
    import torch

    return {"input_features": torch.randn(2, 16, 40)}


def images() -> Sample:
    """Two prompts around an image of sixteen patches; the second is padded on the left."""
    import torch

    ids = torch.tensor([[1, 4, *[98] * 16, 5, 6, 7], [0, 1, *[98] * 16, 8, 9, 10]])
    mask = torch.ones_like(ids)
    mask[1, 0] = 0
    return {"input_ids": ids, "attention_mask": mask, "pixel_values": torch.randn(2, 3, 32, 32)}


GEMMA = {**GROUPED, "sliding_window": 6} | {
    "layer_types": ["sliding_attention", "full_attention"],
}
LLAVA = {"text_config": {**ZOO["llava"].config["text_config"], "use_cache": True}}
#: A stage of which the windows are shifted; the two stages of the zoo export for minutes.
SWIN = {"image_size": 16, "depths": [2], "num_attention_heads": [2]}

CASES: dict[str, Case] = {
    "bert": Case(),
    "roberta": Case(),
    "distilbert": Case(),
    "t5": Case("T5ForConditionalGeneration", {"decoder_start_token_id": 0}, padded),
    "bart": Case("BartForConditionalGeneration", {"decoder_start_token_id": 2}, padded),
    "vit": Case(),
    "swin": Case(config=SWIN),
    "convnext": Case(),
    "resnet": Case(),
    "segformer": Case(),
    "wav2vec2": Case(),
    "ast": Case(base="audio-spectrogram"),
    "whisper": Case(config={"decoder_start_token_id": 3}, sample=sound),
    "clip": Case(),
    "llava": Case(config=LLAVA, sample=images),
    "mamba": Case(),
    "llama": Case(sample=padded),
    "gemma3": Case("Gemma3ForCausalLM", GEMMA, padded, "gemma2"),
    "gpt2": Case(sample=padded),
    "mistral": Case(sample=padded),
    "qwen3": Case(sample=padded),
    "llama, unpadded": Case(sample=unpadded, base="llama"),
}
#: The decoders of which tokens are compared.
DECODERS = ("llama", "gemma3", "gpt2", "qwen3", "mistral", "mixtral")


def build(name: str) -> tuple[nn.Module, Sample]:
    """Return a model and its sample, the same at every call."""
    import torch

    case = CASES.get(name, Case(sample=padded))
    animal = ZOO[case.base or name]
    animal = animal._replace(
        architecture=case.architecture or animal.architecture, config=animal.config | case.config
    )
    if name == "swin":
        animal = animal._replace(inputs=pixels(16))
    model, inputs = grow(name, animal, SMALL | {"use_cache": case.sample is not None})
    if case.sample is None:
        return model, {key: torch.cat([value, value]) for key, value in inputs.items()}
    return model, case.sample()
