"""Further architectures of transformers, timm and diffusers, each with a different operator."""

from __future__ import annotations

from typing import Any

from tests.zoo.models import GROUPED, pixels, tokens, values

from .builders import architecture, backbone

PATCHES = {"image_size": 32, "patch_size": 8}
#: By name: the class, the function of its inputs, and its config on top of the zoo's ``SMALL``.
ARCHITECTURES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "jamba": (
        "JambaForCausalLM",
        tokens(),
        {**GROUPED, "num_experts": 4, "mamba_d_state": 8, "use_mamba_kernels": False}
        | {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_offset": 1},
    ),
    "olmoe": (
        "OlmoeForCausalLM",
        tokens(),
        {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2},
    ),
    "exaone4": (
        "Exaone4ForCausalLM",
        tokens(),
        {**GROUPED, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4},
    ),
    "diffllama": ("DiffLlamaForCausalLM", tokens(), GROUPED),
    "falcon-mamba": ("FalconMambaForCausalLM", tokens(), {"state_size": 8}),
    "nystromformer": (
        "NystromformerModel",
        lambda: {"input_ids": tokens(16)()["input_ids"]},
        {"num_landmarks": 4, "segment_means_seq_len": 16},
    ),
    "xlnet": ("XLNetModel", tokens(), {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "funnel": (
        "FunnelModel",
        tokens(16),
        {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64},
    ),
    "roformer": ("RoFormerModel", tokens(), {}),
    "tapas": ("TapasModel", tokens(), {}),
    "led": (
        "LEDModel",
        tokens(16),
        {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
        | {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
        | {"attention_window": 4},
    ),
    "sew-d": (
        "SEWDModel",
        values("input_values", 1, 800),
        {"conv_dim": [16, 16], "conv_stride": [5, 4], "conv_kernel": [10, 4]}
        | {"squeeze_factor": 2, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4},
    ),
    "dac": (
        "DacModel",
        values("input_values", 1, 1, 640),
        {"encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "decoder_hidden_size": 32}
        | {"n_codebooks": 3, "codebook_size": 32, "codebook_dim": 4, "upsampling_ratios": [4, 2]},
    ),
    "moonshine": (
        "MoonshineModel",
        lambda: {
            **values("input_values", 1, 2000)(),
            "decoder_input_ids": tokens(5)()["input_ids"],
        },
        {"encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2}
        | {"encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4},
    ),
    "decision-transformer": (
        "DecisionTransformerModel",
        lambda: {
            **values("states", 1, 6, 5)(),
            **values("actions", 1, 6, 2)(),
            **values("rewards", 1, 6, 1)(),
            **values("returns_to_go", 1, 6, 1)(),
            "timesteps": steps(6),
            "attention_mask": steps(6) * 0 + 1,
        },
        {"state_dim": 5, "act_dim": 2, "max_ep_len": 32},
    ),
    "siglip2": (
        "Siglip2VisionModel",
        lambda: {
            **values("pixel_values", 1, 16, 192)(),
            "pixel_attention_mask": steps(16) * 0 + 1,
            "spatial_shapes": square(4),
        },
        {"patch_size": 8, "num_patches": 16},
    ),
    "vjepa2": (
        "VJEPA2Model",
        lambda: {"pixel_values_videos": pixels(32, 3, 4)()["pixel_values"]},
        {"crop_size": 32, "patch_size": 8, "frames_per_clip": 4, "pred_hidden_size": 32}
        | {"pred_num_attention_heads": 4, "pred_num_hidden_layers": 2},
    ),
    "vivit": (
        "VivitModel",
        pixels(32, 3, 4),
        {"image_size": 32, "num_frames": 4, "tubelet_size": [2, 8, 8]},
    ),
    "imagegpt": ("ImageGPTModel", tokens(16), {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    "autoformer": (
        "AutoformerModel",
        lambda: {
            **values("past_values", 1, 19)(),
            **values("past_time_features", 1, 19, 2)(),
            "past_observed_mask": values("x", 1, 19)()["x"] * 0 + 1,
            **values("future_values", 1, 6)(),
            **values("future_time_features", 1, 6, 2)(),
        },
        {"prediction_length": 6, "context_length": 12, "num_time_features": 2, "d_model": 32}
        | {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32},
    ),
}
#: The side of the picture that each backbone of timm takes.
SIDES = {
    "fasternet_t0": 64,
    "ghostnetv2_100": 64,
    "tiny_vit_5m_224": 224,
    "crossvit_tiny_240": 240,
    "twins_svt_small": 224,
    "caformer_s18": 64,
    "repvit_m0_9": 64,
    "convit_tiny": 224,
    "starnet_s1": 64,
    "halonet26t": 256,
    "botnet26t_256": 256,
    "lambda_resnet26t": 256,
    "resnest14d": 64,
    "nf_resnet26": 64,
}


def steps(length: int) -> Any:
    """A number for each place."""
    import torch

    return torch.arange(length)[None]


def square(side: int) -> Any:
    """The height and the width of a picture in patches."""
    import torch

    return torch.tensor([[side, side]])


def pixart() -> tuple[Any, Any]:
    """Pictures from text, cross attention in each block."""
    import torch
    from diffusers import PixArtTransformer2DModel

    model = PixArtTransformer2DModel(
        num_attention_heads=4,
        attention_head_dim=8,
        num_layers=2,
        cross_attention_dim=32,
        caption_channels=16,
        sample_size=8,
        use_additional_conditions=False,
    )
    return model, {
        "hidden_states": torch.randn(1, 4, 8, 8),
        "encoder_hidden_states": torch.randn(1, 5, 16),
        "timestep": torch.tensor([7]),
        "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        "return_dict": False,
    }


def wan() -> tuple[Any, Any]:
    """Videos from text, positions in three dimensions."""
    import torch
    from diffusers import WanTransformer3DModel

    model = WanTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=4,
        out_channels=4,
        text_dim=16,
        freq_dim=16,
        ffn_dim=32,
        num_layers=2,
        rope_max_seq_len=32,
    )
    inputs = (torch.randn(1, 4, 2, 8, 8), torch.tensor([7]), torch.randn(1, 5, 16))
    return model, dict(
        zip(("hidden_states", "timestep", "encoder_hidden_states"), inputs, strict=True)
    )


def sana() -> tuple[Any, Any]:
    """Pictures from text with linear attention."""
    import torch
    from diffusers import SanaTransformer2DModel

    model = SanaTransformer2DModel(
        in_channels=4,
        out_channels=4,
        num_attention_heads=4,
        attention_head_dim=8,
        num_layers=2,
        num_cross_attention_heads=4,
        cross_attention_head_dim=8,
        cross_attention_dim=32,
        caption_channels=16,
        sample_size=8,
    )
    inputs = (torch.randn(1, 4, 8, 8), torch.randn(1, 5, 16), torch.tensor([7]))
    return model, dict(
        zip(("hidden_states", "encoder_hidden_states", "timestep"), inputs, strict=True)
    )


def autoencoder_dc() -> tuple[Any, Any]:
    """The encoder and decoder of 32 times fewer pixels."""
    import torch
    from diffusers import AutoencoderDC

    blocks = ("ResBlock", "EfficientViTBlock")
    model = AutoencoderDC(
        latent_channels=4,
        attention_head_dim=8,
        encoder_block_types=blocks,
        decoder_block_types=blocks,
        encoder_block_out_channels=(8, 16),
        decoder_block_out_channels=(8, 16),
        encoder_layers_per_block=(1, 1),
        decoder_layers_per_block=(1, 1),
        encoder_qkv_multiscales=((), (5,)),
        decoder_qkv_multiscales=((), (5,)),
    )
    return model, torch.randn(1, 3, 32, 32)


MODELS = {
    **{name: (lambda name=name, side=side: backbone(name, side)) for name, side in SIDES.items()},
    **{name: (lambda given=given: architecture(*given)) for name, given in ARCHITECTURES.items()},
    "pixart": pixart,
    "wan": wan,
    "sana": sana,
    "autoencoder-dc": autoencoder_dc,
}
