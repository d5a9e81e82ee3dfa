"""The networks of diffusers' pipelines, and other networks that remove noise."""

from __future__ import annotations

from typing import Any

UNET = {
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "sample_size": 16,
}


def unet_2d() -> tuple[Any, Any]:
    """The unconditional network; the time step is a Python number."""
    import torch
    from diffusers import UNet2DModel

    blocks = {
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    }
    return UNet2DModel(**UNET, **blocks), (torch.randn(1, 3, 16, 16), 7)


def unet_2d_condition() -> tuple[Any, Any]:
    """Stable Diffusion's network."""
    import torch
    from diffusers import UNet2DConditionModel

    blocks = {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    model = UNet2DConditionModel(**UNET, **blocks, cross_attention_dim=24, attention_head_dim=4)
    return model, {
        "sample": torch.randn(1, 4, 16, 16),
        "timestep": torch.tensor([11]),
        "encoder_hidden_states": torch.randn(1, 7, 24),
        "return_dict": False,
    }


def controlnet() -> tuple[Any, Any]:
    """The network that steers it."""
    import torch
    from diffusers import ControlNetModel

    model = ControlNetModel(
        block_out_channels=(16, 32),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=24,
        attention_head_dim=4,
        conditioning_embedding_out_channels=(8, 16),
    )
    return model, {
        "sample": torch.randn(1, 4, 16, 16),
        "timestep": torch.tensor(11),
        "encoder_hidden_states": torch.randn(1, 7, 24),
        "controlnet_cond": torch.rand(1, 3, 32, 32),
    }


def autoencoder_kl() -> tuple[Any, Any]:
    """The picture's way into the latent space and back."""
    import torch
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32),
        norm_num_groups=4,
    )
    return model, torch.rand(1, 3, 32, 32)


def vae_decoder() -> tuple[Any, Any]:
    """The half of the autoencoder that pipelines deploy."""
    import torch

    model, _ = autoencoder_kl()
    return model.decoder, torch.randn(1, 4, 16, 16)


def autoencoder_tiny() -> tuple[Any, Any]:
    """The small one."""
    import torch
    from diffusers import AutoencoderTiny

    channels = {"encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16)}
    blocks = {"num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)}
    return AutoencoderTiny(**channels, **blocks), torch.rand(1, 3, 32, 32)


def vq_model() -> tuple[Any, Any]:
    """The autoencoder whose latents are entries of a table."""
    import torch
    from diffusers import VQModel

    model = VQModel(block_out_channels=(16,), norm_num_groups=4, num_vq_embeddings=32)
    return model, torch.rand(1, 3, 32, 32)


def dit() -> tuple[Any, Any]:
    """A transformer in place of the convolutions."""
    import torch
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(
        num_attention_heads=4, attention_head_dim=8, num_layers=2, sample_size=8, norm_num_groups=4
    )
    return model, {
        "hidden_states": torch.randn(1, 4, 8, 8),
        "timestep": torch.tensor([3]),
        "class_labels": torch.tensor([5]),
    }


def sd3() -> tuple[Any, Any]:
    """Stable Diffusion 3's transformer."""
    import torch
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=8,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=24,
        caption_projection_dim=32,
        pooled_projection_dim=20,
        pos_embed_max_size=8,
        in_channels=4,
        out_channels=4,
    )
    return model, {
        "hidden_states": torch.randn(1, 4, 8, 8),
        "encoder_hidden_states": torch.randn(1, 5, 24),
        "pooled_projections": torch.randn(1, 20),
        "timestep": torch.tensor([3]),
    }


def flux() -> tuple[Any, Any]:
    """FLUX's transformer, with its rotary positions."""
    import torch
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=24,
        pooled_projection_dim=20,
        axes_dims_rope=(4, 4, 8),
    )
    return model, {
        "hidden_states": torch.randn(1, 16, 4),
        "encoder_hidden_states": torch.randn(1, 5, 24),
        "pooled_projections": torch.randn(1, 20),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.randint(0, 4, (16, 3)).float(),
        "txt_ids": torch.zeros(5, 3),
        "guidance": None,
    }


def unet_1d() -> tuple[Any, Any]:
    """The network of sounds and of a robot's plans."""
    import torch
    from diffusers import UNet1DModel

    model = UNet1DModel(
        sample_size=32,
        block_out_channels=(32, 32, 64),
        in_channels=2,
        out_channels=2,
        extra_in_channels=64,
    )
    return model, (torch.randn(1, 2, 32), torch.tensor([3]))


def lucid_unet() -> tuple[Any, Any]:
    """denoising-diffusion-pytorch's network."""
    import torch
    from denoising_diffusion_pytorch import Unet

    return Unet(dim=16, dim_mults=(1, 2), flash_attn=False), (
        torch.randn(1, 3, 16, 16),
        torch.tensor([3]),
    )


MODELS = {
    "unet-2d": unet_2d,
    "unet-2d-condition": unet_2d_condition,
    "controlnet": controlnet,
    "autoencoder-kl": autoencoder_kl,
    "vae-decoder": vae_decoder,
    "autoencoder-tiny": autoencoder_tiny,
    "vq-model": vq_model,
    "dit": dit,
    "sd3-transformer": sd3,
    "flux-transformer": flux,
    "unet-1d": unet_1d,
    "lucid-unet": lucid_unet,
}
