"""The axes that are open if a user asks for dynamic sizes without naming them."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from enginebay_transformers.open_axes import open_axes


def integers(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.int64)


def filled(past: int, cache: Any = None) -> Any:
    cache = transformers.DynamicCache() if cache is None else cache
    cache.update(torch.ones(2, 2, past, 4), torch.ones(2, 2, past, 4), 0)
    return cache


def test_batch_and_tokens_of_a_text_are_open() -> None:
    names = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    axes = open_axes({name: integers(2, 7) for name in names})
    assert axes == {name: {0: "batch", 1: "tokens"} for name in names}


def test_only_the_batch_of_an_image_is_open() -> None:
    assert open_axes({"pixel_values": torch.ones(2, 3, 8, 8)}) == {"pixel_values": {0: "batch"}}


def test_step_with_a_cache_has_one_token_and_a_mask_of_its_past_and_one() -> None:
    inputs = {"input_ids": integers(2, 1), "attention_mask": integers(2, 6), "cache": filled(5)}
    assert open_axes(inputs) == {
        "input_ids": {0: "batch"},
        "attention_mask": {0: "batch", 1: "past+1"},
        "cache.0.key": {0: "batch", 2: "past"},
        "cache.0.value": {0: "batch", 2: "past"},
    }


def test_several_tokens_with_a_cache_are_a_term_of_the_sum() -> None:
    inputs = {"input_ids": integers(2, 3), "attention_mask": integers(2, 8), "cache": filled(5)}
    axes = open_axes(inputs)
    assert axes["input_ids"] == {0: "batch", 1: "tokens"}
    assert axes["attention_mask"] == {0: "batch", 1: "past+tokens"}


def test_encoder_and_decoder_have_sizes_of_their_own() -> None:
    inputs = {
        "attention_mask": integers(2, 7),
        "encoder_outputs": {"last_hidden_state": torch.ones(2, 7, 16)},
        "decoder_input_ids": integers(2, 1),
        "cache": transformers.EncoderDecoderCache(filled(4), filled(7)),
    }
    axes = open_axes(inputs)
    assert axes["attention_mask"] == {0: "batch", 1: "source"}
    assert axes["encoder_outputs.last_hidden_state"] == {0: "batch", 1: "source"}
    assert axes["decoder_input_ids"] == {0: "batch"}
    assert axes["cache.self_attention_cache.0.key"] == {0: "batch", 2: "past"}
    assert axes["cache.cross_attention_cache.0.key"] == {0: "batch", 2: "source"}


def test_input_of_another_batch_stays_fixed() -> None:
    inputs = {"input_ids": integers(2, 7), "image_sizes": integers(5, 2), "scale": torch.tensor(1)}
    assert open_axes(inputs) == {"input_ids": {0: "batch", 1: "tokens"}}


def test_cache_of_fixed_size_fixes_all_sizes() -> None:
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    cache = transformers.StaticCache(transformers.LlamaConfig(**sizes), max_cache_len=12)
    assert open_axes({"input_ids": integers(2, 7), "cache": cache}) == {}
