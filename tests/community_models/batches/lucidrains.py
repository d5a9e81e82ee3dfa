"""Layers and transformers of lucidrains, which people build their own models from."""

from __future__ import annotations

from typing import Any


def decoder(**options: Any) -> tuple[Any, Any]:
    """x-transformers' language model with some of its options."""
    import torch
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)
    model = TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=layers)
    return model, torch.randint(0, 50, (1, 12))


def encoder_decoder() -> tuple[Any, Any]:
    """Cross-attention to a context with a mask."""
    import torch
    from x_transformers import ContinuousTransformerWrapper, Encoder

    layers = Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, use_rmsnorm=True)
    model = ContinuousTransformerWrapper(dim_in=6, dim_out=3, max_seq_len=16, attn_layers=layers)
    return model, {"x": torch.randn(1, 12, 6), "mask": torch.ones(1, 12, dtype=torch.bool)}


def vision(module: str, name: str, shape: tuple[int, ...] = (1, 3, 32, 32), **options: Any) -> Any:
    """One of vit-pytorch's."""
    from importlib import import_module

    import torch

    kind = getattr(import_module(f"vit_pytorch.{module}"), name)
    return kind(**options), torch.rand(shape)


#: What most of its classes take.
SMALL = {"num_classes": 8, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 64}
PATCHES = {"image_size": 32, "patch_size": 8, **SMALL}


def performer() -> tuple[Any, Any]:
    """Attention by random features."""
    import torch
    from performer_pytorch import Performer

    return Performer(dim=32, depth=2, heads=4, dim_head=8, nb_features=16), torch.randn(1, 12, 32)


def perceiver() -> tuple[Any, Any]:
    """A few latents that look at many inputs."""
    import torch
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(
        dim=8,
        queries_dim=6,
        depth=2,
        num_latents=5,
        latent_dim=16,
        logits_dim=4,
        cross_heads=1,
        latent_heads=2,
        cross_dim_head=8,
        latent_dim_head=8,
    )
    return model, {"data": torch.randn(1, 20, 8), "queries": torch.randn(1, 3, 6)}


def quantiser(name: str, **options: Any) -> tuple[Any, Any]:
    """A vector's entry in a table, and its number."""
    import torch
    import vector_quantize_pytorch

    return getattr(vector_quantize_pytorch, name)(**options), torch.randn(1, 12, 16)


def entmax(name: str) -> tuple[Any, Any]:
    """A softmax with zeros, after a linear layer."""
    import entmax as package
    import torch

    return torch.nn.Sequential(torch.nn.Linear(6, 10), getattr(package, name)(dim=-1)), torch.randn(
        4, 6
    )


def local_attention() -> tuple[Any, Any]:
    """Attention to one's neighbours."""
    import torch
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=50,
        dim=32,
        depth=2,
        heads=4,
        dim_head=8,
        max_seq_len=16,
        local_attn_window_size=4,
        causal=True,
    )
    return model, torch.randint(0, 50, (1, 16))


MODELS = {
    "decoder-rotary": lambda: decoder(rotary_pos_emb=True, ff_glu=True),
    "decoder-alibi": lambda: decoder(alibi_pos_bias=True, attn_one_kv_head=True),
    "decoder-t5-bias": lambda: decoder(rel_pos_bias=True, use_scalenorm=True),
    "decoder-sparse": lambda: decoder(attn_sparse_topk=3, attn_qk_norm=True),
    "continuous-encoder": encoder_decoder,
    "vit-simple": lambda: vision("simple_vit", "SimpleViT", **PATCHES),
    "vit-cait": lambda: vision("cait", "CaiT", **PATCHES, cls_depth=1),
    "vit-deep": lambda: vision("deepvit", "DeepViT", **PATCHES),
    "vit-cross": lambda: vision(
        "cross_vit",
        "CrossViT",
        image_size=32,
        num_classes=8,
        sm_dim=16,
        lg_dim=32,
        sm_patch_size=8,
        lg_patch_size=16,
    ),
    "vit-crossformer": lambda: vision(
        "crossformer",
        "CrossFormer",
        (1, 3, 224, 224),
        num_classes=8,
        dim=(32, 64, 64, 64),
        depth=(1, 1, 1, 1),
    ),
    "vit-max": lambda: vision(
        "max_vit",
        "MaxViT",
        (1, 3, 64, 64),
        num_classes=8,
        dim=16,
        depth=(1, 1),
        dim_head=8,
        window_size=4,
    ),
    "vit-twins": lambda: vision("twins_svt", "TwinsSVT", (1, 3, 224, 224), num_classes=8),
    "vit-3d": lambda: vision(
        "vit_3d",
        "ViT",
        (1, 3, 4, 32, 32),
        image_size=32,
        image_patch_size=8,
        **SMALL,
        frames=4,
        frame_patch_size=2,
    ),
    "vit-fft": lambda: vision("simple_vit_with_fft", "SimpleViT", **PATCHES, freq_patch_size=8),
    "performer": performer,
    "perceiver-io": perceiver,
    "vector-quantise": lambda: quantiser("VectorQuantize", dim=16, codebook_size=20),
    "residual-quantise": lambda: quantiser(
        "ResidualVQ", dim=16, codebook_size=20, num_quantizers=3
    ),
    "finite-quantise": lambda: quantiser("FSQ", levels=[5, 5, 4], dim=16),
    "entmax-15": lambda: entmax("Entmax15"),
    "sparsemax": lambda: entmax("Sparsemax"),
    "local-attention": local_attention,
}
