"""The laws of a model's parts: nothing that changes tokens is lost, and every size was tried."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.exporters.utils import decompose_for_generation, get_leaf_tensors

from enginebay_transformers.laws import Part, find_breaches

TRIED = {f"n{size}": (1, size) for size in range(100)}


def _part(name: str, module: Any, inputs: dict[str, Any], lost: str = "") -> Part:
    """A part as its exporter leaves it: sizes of 1 are fixed, all others open."""
    sizes = {
        path: [size if size == 1 else f"n{size}" for size in tensor.shape]
        for path, tensor in get_leaf_tensors(inputs).items()
        if path != lost
    }
    return Part(name, module, inputs, sizes, TRIED)


def _parts(model: Any, sample: dict[str, Any], lost: str = "") -> list[Part]:
    found = decompose_for_generation(model, sample)
    return [_part(name, *each, lost) for name, each in found.items()]


@pytest.mark.parametrize("kind", ["llama", "gemma3", "gpt2", "mistral", "mixtral", "qwen3"])
def test_parts_of_a_decoder_keep_the_laws(kind: str, build: Any, prompts: Any) -> None:
    model, sample = build(kind), prompts()
    assert find_breaches(model, sample, _parts(model, sample)) == []


@pytest.mark.parametrize("padding", [0, 2])
def test_a_mask_that_no_part_takes_is_a_breach_whatever_the_sample(
    padding: int, llama: Any, prompts: Any
) -> None:
    sample = prompts(padding)
    lost = (
        "'attention_mask' changes the tokens of generate, and no part takes it: export from a "
        "sample in which a row is padded on the left"
    )
    assert find_breaches(llama, sample, _parts(llama, sample, lost="attention_mask")) == [lost]
    del sample["attention_mask"]
    assert find_breaches(llama, sample, _parts(llama, sample, lost="attention_mask")) == [lost]


def test_a_mask_that_one_part_lacks_is_a_breach(llama: Any, prompts: Any) -> None:
    sample = prompts()
    prefill, decode = _parts(llama, sample, lost="attention_mask"), _parts(llama, sample)
    lacks = (
        "'attention_mask' changes 'prefill', which does not take it: export from a sample in which "
        "a row is padded on the left"
    )
    assert find_breaches(llama, sample, [prefill[0], decode[1]]) == [lacks]


def test_an_argument_that_changes_nothing_may_be_lost(llama: Any, prompts: Any) -> None:
    sample = prompts() | {"labels": prompts()["input_ids"]}
    parts = _parts(llama, prompts())
    assert find_breaches(llama, sample, parts, generates=False) == []


def test_a_size_that_was_tried_at_one_value_is_a_breach(llama: Any, prompts: Any) -> None:
    sizes = {"input_ids": ["batch", "tokens"], "attention_mask": ["batch", "past+1"]}
    tried = {"batch": (1, 3), "tokens": (7,), "past": (4, 7)}
    sample = prompts()
    part = Part("prefill", llama, sample, sizes, tried)
    place = "axis 1 of 'input_ids' of 'prefill' is open, and was tried at"
    assert find_breaches(llama, sample, [part], generates=False) == [
        f"{place} 7 only: export it with this axis fixed"
    ]
    part = Part("prefill", llama, sample, sizes, {"batch": (1, 3), "past": (4, 7)})
    assert find_breaches(llama, sample, [part], generates=False) == [
        f"{place} no size: export it with this axis fixed"
    ]


@pytest.mark.parametrize(
    ("kind", "encoder", "argument"),
    [("t5", "encoder", "input_ids"), ("whisper", "model.encoder", "input_features")],
)
def test_an_encoder_that_is_no_part_and_a_frozen_past_are_breaches(
    kind: str, encoder: str, argument: str, build: Any, prompts: Any
) -> None:
    model = build(kind)
    sample = prompts() if kind == "t5" else {"input_features": torch.ones(2, 8, 40)}
    parts = _parts(model, sample)
    lost, frozen, missing = find_breaches(model, sample, parts)
    assert lost.startswith(f"'{argument}' changes the tokens of generate, and no part takes it: ")
    assert frozen.startswith(
        "axis 2 of 'cache.self_attention_cache.0.key' of 'decode' is fixed at 1, and is 2 in a "
        "later step of generate: "
    )
    assert missing == (
        f"'{encoder}' of the model runs in generate, and in no part: export this module by hand, "
        f"and add it to the parts under the name '{encoder}'"
    )
    added = _part(encoder, model.get_encoder(), sample)
    assert find_breaches(model, sample, [*parts, added]) == [frozen]


def test_a_past_of_several_tokens_is_not_frozen(build: Any, prompts: Any) -> None:
    model = build("t5")
    ids = torch.tensor([[0, 5, 6]]).expand(3, 3)
    sample = prompts() | {"decoder_input_ids": ids}
    parts = [*_parts(model, sample), _part("encoder", model.get_encoder(), prompts())]
    assert find_breaches(model, sample, parts) == []


def test_an_image_encoder_that_was_dropped_is_a_breach(build: Any) -> None:
    model = build("llava")
    ids = torch.tensor([[0, 0, 5, 49, 49, 49, 49, 7, 8]])
    sample = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    sample["pixel_values"] = torch.randn(1, 3, 8, 8)
    lost, *missing = find_breaches(model, sample, _parts(model, sample))
    assert lost.startswith("'pixel_values' changes the tokens of generate, and no part takes it")
    assert [line.partition(" of ")[0] for line in missing] == [
        "'model.multi_modal_projector'",
        "'model.vision_tower'",
    ]
