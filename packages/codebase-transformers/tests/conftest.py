"""Small decoders and other models of transformers, with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

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
#: Weights so large that the most probable token changes from one step to the next.
WIDE = {"initializer_range": 0.6}


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
    return model(config(**{**SIZES, **TOKENS, **options})).eval()


@pytest.fixture(scope="session")
def llama() -> Any:
    """A Llama of two layers."""
    return build_decoder("llama")


@pytest.fixture(scope="session")
def build() -> Any:
    """A function from the kind of a model, such as 'llama', to a small one with random weights."""
    others = {"t5": build_t5, "whisper": build_whisper, "llava": build_llava}
    return lambda kind, **options: (
        others[kind]() if kind in others else build_decoder(kind, **options)
    )


@pytest.fixture(scope="session")
def prompts() -> Any:
    """A function that returns three prompts, the second of which is padded on the left."""
    return padded_prompts


def build_t5() -> Any:
    """Return a T5 with an encoder and a decoder of one layer."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1}
    config = tf.T5Config(**sizes, num_heads=4, decoder_start_token_id=0)
    return tf.T5ForConditionalGeneration(config).eval()


def build_whisper() -> Any:
    """Return a Whisper with an encoder and a decoder of one layer."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    widths = {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "num_mel_bins": 8}
    lengths = {"max_source_positions": 20, "max_target_positions": 32}
    ids = TOKENS | {"decoder_start_token_id": 3}
    suppressed = {"suppress_tokens": None, "begin_suppress_tokens": None}
    config = tf.WhisperConfig(**sizes, **heads, **widths, **lengths, **ids, **suppressed)
    return tf.WhisperForConditionalGeneration(config).eval()


def build_llava() -> Any:
    """Return a Llava for images of 8x8, with the id 49 for a patch of an image."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    vision = tf.CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=8,
        patch_size=4,
        projection_dim=16,
    )
    text = tf.LlamaConfig(**SIZES, **TOKENS)
    config = tf.LlavaConfig(vision_config=vision, text_config=text, image_token_index=49)
    return tf.LlavaForConditionalGeneration(config).eval()


def padded_prompts(padding: int = 2) -> dict[str, Any]:
    """Return three prompts of seven ids, the second of which is padded on the left."""
    import torch

    ids = torch.randint(3, 48, (3, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, :padding] = 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.fixture(scope="session")
def wide() -> Any:
    """A Llama of which two tokens, 7 and 8, always have almost the same logits."""
    import torch

    model = build_decoder("llama", **WIDE)
    with torch.no_grad():
        model.lm_head.weight[2] *= 2  # the end of a row
        model.lm_head.weight[7] *= 2
        model.lm_head.weight[8] = model.lm_head.weight[7] * (1 + 1e-6)
    return model


@pytest.fixture(scope="session")
def made(wide: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The deployment of a bundle."""
    from enginebay_transformers import deploy_decoder

    folder = tmp_path_factory.mktemp("made") / "bundle"
    return deploy_decoder(wide, backend="onnxruntime", work_dir=folder)


@pytest.fixture(scope="session")
def bundle(made: Any) -> Iterator[Any]:
    """The open bundle."""
    from enginebay_transformers import open_bundle

    with open_bundle(made.path) as opened:
        yield opened
