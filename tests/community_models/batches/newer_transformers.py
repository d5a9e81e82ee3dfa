"""Architectures of transformers that are not in the zoo, mostly of the last two years."""

from __future__ import annotations

from typing import Any

from tests.zoo.models import GROUPED, SMALL, pixels, tokens, values

EXPERTS = {
    **GROUPED,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
LINEAR = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
PATCHES = {"image_size": 32, "patch_size": 8}
#: By name: the class, the function of its inputs, and its config on top of the zoo's ``SMALL``.
ARCHITECTURES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "gemma3": (
        "Gemma3ForCausalLM",
        tokens(),
        {**GROUPED, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4},
    ),
    "qwen3-next": ("Qwen3NextForCausalLM", tokens(), {**EXPERTS, **LINEAR}),
    "gpt-oss": ("GptOssForCausalLM", tokens(), EXPERTS),
    "smollm3": ("SmolLM3ForCausalLM", tokens(), GROUPED),
    "olmo3": ("Olmo3ForCausalLM", tokens(), GROUPED),
    "glm4": ("Glm4ForCausalLM", tokens(), GROUPED),
    "lfm2": (
        "Lfm2ForCausalLM",
        tokens(),
        {**GROUPED, "layer_types": ["conv", "full_attention"]},
    ),
    "falcon-h1": (
        "FalconH1ForCausalLM",
        tokens(),
        {**GROUPED, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8},
    ),
    "minimax": ("MiniMaxForCausalLM", tokens(), {**EXPERTS, "block_size": 4}),
    "xlstm": (
        "xLSTMForCausalLM",
        tokens(),
        {"num_heads": 4, "num_blocks": 2, "chunkwise_kernel": "chunkwise--native_autograd"}
        | {"sequence_kernel": "native_sequence__native", "step_kernel": "native"},
    ),
    "eurobert": ("EuroBertForMaskedLM", tokens(), {"num_key_value_heads": 4}),
    "big-bird": ("BigBirdModel", tokens(), {"attention_type": "original_full"}),
    "deberta": ("DebertaModel", tokens(), {"relative_attention": True, "pos_att_type": ["c2p"]}),
    "canine": ("CanineModel", tokens(32), {"downsampling_rate": 4, "local_attention_head_dim": 8}),
    "dinov2-registers": ("Dinov2WithRegistersModel", pixels(), PATCHES),
    "ijepa": ("IJepaModel", pixels(), PATCHES),
    "aimv2": ("Aimv2VisionModel", pixels(), PATCHES),
    "vitpose-backbone": (
        "VitPoseBackbone",
        pixels(),
        {"image_size": [32, 32], "patch_size": [8] * 2},
    ),
    "swiftformer": (
        "SwiftFormerModel",
        pixels(64),
        {"depths": [1, 1, 1, 1], "embed_dims": [16, 16, 32, 32], "image_size": 64},
    ),
    "pvt": (
        "PvtModel",
        pixels(64),
        {"image_size": 64, "hidden_sizes": [8, 16, 16, 32], "num_attention_heads": [1, 2, 2, 4]},
    ),
    "superpoint": ("SuperPointForKeypointDetection", pixels(64), {}),
    "hgnet": (
        "HGNetV2Backbone",
        pixels(64),
        {"embedding_size": 16, "stem_channels": [3, 8, 16], "hidden_sizes": [32, 32, 32, 32]}
        | {"stage_in_channels": [16, 32, 32, 32], "stage_mid_channels": [8] * 4}
        | {
            "stage_out_channels": [32] * 4,
            "stage_num_blocks": [1] * 4,
            "stage_numb_of_layers": [2] * 4,
        },
    ),
    "mimi": (
        "MimiModel",
        values("input_values", 1, 1, 3840),
        {"num_filters": 4, "num_quantizers": 4, "codebook_size": 32, "codebook_dim": 16}
        | {
            "num_key_value_heads": 4,
            "head_dim": 8,
            "upsample_groups": 4,
            "vector_quantization_hidden_dimension": 16,
        },
    ),
    "wav2vec2-bert": ("Wav2Vec2BertModel", values("input_features", 1, 20, 160), {}),
    "time-series": (
        "InformerModel",
        lambda: {
            **values("past_values", 1, 19)(),
            **values("past_time_features", 1, 19, 2)(),
            **values("future_values", 1, 6)(),
            **values("future_time_features", 1, 6, 2)(),
            "past_observed_mask": ones(1, 19),
        },
        {"prediction_length": 6, "context_length": 12, "num_time_features": 2, "d_model": 32}
        | {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32},
    ),
}


def ones(*shape: int) -> Any:
    """A mask that hides nothing."""
    import torch

    return torch.ones(shape)


def build(name: str) -> tuple[Any, Any]:
    """A small one with random weights, as transformers starts them."""
    import transformers

    transformers.logging.set_verbosity_error()
    kind, inputs, config = ARCHITECTURES[name]
    architecture: Any = getattr(transformers, kind)
    small = {key: value for key, value in SMALL.items() if key != "num_labels"}
    model = architecture(architecture.config_class(**{**small, **config}))
    return model, inputs()


MODELS = {name: (lambda name=name: build(name)) for name in ARCHITECTURES}
