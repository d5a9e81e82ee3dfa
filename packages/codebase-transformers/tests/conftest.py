"""Small decoders and other models of transformers, with random weights."""

from __future__ import annotations

from typing import Any

import pytest

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 64,
}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def build_decoder(kind: str, **options: Any) -> Any:
    """Return a decoder of two layers with random weights, of the ``kind`` 'llama', 'gpt2' …."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    if kind == "gpt2":
        sizes = {"n_layer": 2, "n_head": 4, "n_embd": 16, "n_positions": 64, "vocab_size": 50}
        return tf.GPT2LMHeadModel(tf.GPT2Config(**sizes, **TOKENS, **options)).eval()
    options = {
        "gemma3": {
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        "mistral": {"sliding_window": 8},
        "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    }.get(kind, {}) | options
    model, config = {
        "gemma3": (tf.Gemma3ForCausalLM, tf.Gemma3TextConfig),
        "llama": (tf.LlamaForCausalLM, tf.LlamaConfig),
        "mistral": (tf.MistralForCausalLM, tf.MistralConfig),
        "mixtral": (tf.MixtralForCausalLM, tf.MixtralConfig),
        "qwen3": (tf.Qwen3ForCausalLM, tf.Qwen3Config),
    }[kind]
    return model(config(**SIZES, **TOKENS, **options)).eval()


@pytest.fixture(scope="session")
def llama() -> Any:
    """A Llama of two layers."""
    return build_decoder("llama")
