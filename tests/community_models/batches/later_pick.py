"""Models of each package that earlier batches do not have; none was left out for failing."""

from __future__ import annotations

from typing import Any

from tests.zoo.models import GROUPED, pixels, tokens, values

from .builders import architecture, backbone, by_class
from .tables import deepctr


def not_longer() -> Any:
    """That a sound is no longer than a spectrogram."""
    import torch

    return torch.tensor([[False]])


#: The side of the picture that each backbone of timm takes.
SIDES = {
    "csatv2": 512,
    "cspdarknet53": 64,
    "ese_vovnet19b_dw": 64,
    "focalnet_tiny_srf": 64,
    "gmlp_s16_224": 224,
    "hardcorenas_a": 64,
    "hgnetv2_b0": 64,
    "lcnet_050": 64,
    "mobileone_s0": 64,
    "poolformerv2_s12": 64,
    "resmlp_12_224": 224,
    "rexnet_100": 64,
    "shvit_s1": 64,
    "skresnet18": 64,
}

#: Of transformers: the class, the function of its inputs, its config on top of the zoo's ``SMALL``.
ARCHITECTURES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "biogpt": ("BioGptForCausalLM", tokens(), {}),
    "codegen": (
        "CodeGenForCausalLM",
        tokens(),
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
    ),
    "gpt-neo": (
        "GPTNeoForCausalLM",
        tokens(),
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
        | {"window_size": 4},
    ),
    "xglm": (
        "XGLMForCausalLM",
        tokens(),
        {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64},
    ),
    "persimmon": ("PersimmonForCausalLM", tokens(), {}),
    "starcoder2": ("Starcoder2ForCausalLM", tokens(), GROUPED),
    "granite": ("GraniteForCausalLM", tokens(), GROUPED),
    "nemotron-h": (
        "NemotronHForCausalLM",
        tokens(),
        {**GROUPED, "layers_block_type": ["mamba", "attention"], "mamba_num_heads": 4}
        | {"mamba_head_dim": 8, "ssm_state_size": 8, "n_groups": 1, "chunk_size": 4},
    ),
    "ibert": ("IBertModel", tokens(), {}),
    "megatron-bert": ("MegatronBertModel", tokens(), {}),
    "markuplm": ("MarkupLMModel", tokens(), {"max_depth": 4}),
    "layoutlmv3": (
        "LayoutLMv3Model",
        tokens(),
        {"visual_embed": False, "coordinate_size": 4, "shape_size": 8},
    ),
    "vit-mae": (
        "ViTMAEModel",
        lambda: {**pixels(32)(), "noise": values("noise", 1, 16)()["noise"]},
        {"image_size": 32, "patch_size": 8, "mask_ratio": 0.25},
    ),
    "textnet": (
        "TextNetBackbone",
        pixels(64),
        {"stem_out_channels": 8, "hidden_sizes": [8, 8, 16, 16, 16]},
    ),
    "table-transformer": (
        "TableTransformerModel",
        pixels(64),
        {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4}
        | {"decoder_attention_heads": 4, "num_queries": 5, "use_timm_backbone": False}
        | {"backbone": None, "use_pretrained_backbone": False}
        | {"backbone_config": {"model_type": "resnet", "hidden_sizes": [8, 16], "depths": [1, 1]}}
        | {"backbone_kwargs": None},
    ),
    "data2vec-audio": (
        "Data2VecAudioModel",
        values("input_values", 1, 800),
        {"conv_dim": [16, 16], "conv_stride": [5, 4], "conv_kernel": [10, 4]}
        | {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 2}
        | {"conv_pos_kernel_size": 5, "num_conv_pos_embedding_groups": 4},
    ),
    "clap-audio": (
        "ClapAudioModel",
        lambda: {
            **values("input_features", 1, 1, 64, 64)(),
            "is_longer": not_longer(),
        },
        {"spec_size": 64, "num_mel_bins": 64, "patch_embeds_hidden_size": 8, "depths": [1, 1]}
        | {"num_attention_heads": [2, 2], "window_size": 4, "patch_size": 4, "patch_stride": [4, 4]}
        | {"num_hidden_layers": 2, "hidden_size": 16},
    ),
}

#: By name: the place of the class, its positional arguments, its options, the inputs' shapes.
CLASSES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[tuple[int, ...], ...]]] = {
    "resnet18": ("torchvision.models.resnet18", (), {}, ((1, 3, 64, 64),)),
    "vgg11_bn": ("torchvision.models.vgg11_bn", (), {}, ((1, 3, 64, 64),)),
    "mobilenet_v3_small": ("torchvision.models.mobilenet_v3_small", (), {}, ((1, 3, 64, 64),)),
    "swin_t": ("torchvision.models.swin_t", (), {}, ((1, 3, 64, 64),)),
    "monai-unetplusplus": (
        "monai.networks.nets.BasicUNetPlusPlus",
        (2, 1, 2, (8, 8, 16, 16, 16, 8)),
        {},
        ((1, 1, 32, 32),),
    ),
    "monai-efficientnet": (
        "monai.networks.nets.EfficientNetBN",
        ("efficientnet-b0",),
        {"spatial_dims": 2, "in_channels": 1, "num_classes": 3, "pretrained": False},
        ((1, 1, 64, 64),),
    ),
    "monai-autoencoder": (
        "monai.networks.nets.AutoEncoder",
        (2, 1, 1, (4, 8), (2, 2)),
        {},
        ((1, 1, 32, 32),),
    ),
    "spandrel-compact": (
        "spandrel.architectures.Compact.__arch.SRVGG.SRVGGNetCompact",
        (),
        {"num_feat": 16, "num_conv": 4},
        ((1, 3, 24, 24),),
    ),
    "spandrel-safmn": (
        "spandrel.architectures.SAFMN.SAFMN",
        (),
        {"dim": 16, "n_blocks": 2},
        ((1, 3, 32, 32),),
    ),
    "spandrel-plksr": (
        "spandrel.architectures.PLKSR.PLKSR",
        (),
        {"dim": 16, "n_blocks": 2},
        ((1, 3, 24, 24),),
    ),
    "spandrel-swin2sr": (
        "spandrel.architectures.Swin2SR.Swin2SR",
        (),
        {"img_size": 16, "embed_dim": 12, "depths": [2], "num_heads": [2], "window_size": 4},
        ((1, 3, 16, 16),),
    ),
    "lfcc": (
        "torchaudio.transforms.LFCC",
        (8000,),
        {"n_filter": 20, "n_lfcc": 13, "speckwargs": {"n_fft": 256}},
        ((1, 4000),),
    ),
    "spectral-centroid": (
        "torchaudio.transforms.SpectralCentroid",
        (8000,),
        {"n_fft": 256},
        ((1, 4000),),
    ),
    "kornia-hsv": ("kornia.color.RgbToHsv", (), {}, ((1, 3, 24, 24),)),
    "kornia-blur": ("kornia.filters.GaussianBlur2d", ((5, 5), (1.2, 1.2)), {}, ((1, 3, 24, 24),)),
    "kornia-sobel": ("kornia.filters.Sobel", (), {}, ((1, 3, 24, 24),)),
    "kornia-unsharp": ("kornia.filters.UnsharpMask", ((5, 5), (1.2, 1.2)), {}, ((1, 3, 24, 24),)),
    "kornia-pyramid": ("kornia.geometry.PyrDown", (), {}, ((1, 3, 32, 32),)),
    "piq-ms-ssim": ("piq.MultiScaleSSIMLoss", (), {"kernel_size": 3}, ((1, 3, 64, 64),) * 2),
    "vit-levit": (
        "vit_pytorch.levit.LeViT",
        (),
        {"image_size": 64, "num_classes": 5, "dim": (16, 32), "depth": 1, "heads": (2, 4)}
        | {"mlp_mult": 2, "stages": 2},
        ((1, 3, 64, 64),),
    ),
    "vit-cvt": ("vit_pytorch.cvt.CvT", (), {"num_classes": 5}, ((1, 3, 64, 64),)),
    "vit-parallel": (
        "vit_pytorch.parallel_vit.ViT",
        (),
        {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 1, "heads": 2}
        | {"mlp_dim": 32},
        ((1, 3, 32, 32),),
    ),
    "vit-small-dataset": (
        "vit_pytorch.vit_for_small_dataset.ViT",
        (),
        {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 1, "heads": 2}
        | {"mlp_dim": 32},
        ((1, 3, 32, 32),),
    ),
    "vit-xcit": (
        "vit_pytorch.xcit.XCiT",
        (),
        {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 1, "heads": 2}
        | {"cls_depth": 1, "mlp_dim": 32},
        ((1, 3, 32, 32),),
    ),
    "vit-scalable": (
        "vit_pytorch.scalable_vit.ScalableViT",
        (),
        {"num_classes": 5, "dim": 16, "heads": (2, 2, 4, 4), "depth": (1, 1, 1, 1)}
        | {"ssa_dim_key": (8, 8, 8, 8), "reduction_factor": (4, 2, 1, 1)}
        | {"window_size": (8, 8, None, None)},
        ((1, 3, 64, 64),),
    ),
    "t2i-adapter": (
        "diffusers.T2IAdapter",
        (),
        {"channels": [8, 16, 16, 16], "num_res_blocks": 1, "downscale_factor": 8},
        ((1, 3, 64, 64),),
    ),
    "mask-encoder": (
        "diffusers.models.autoencoders.vae.MaskConditionEncoder",
        (3,),
        {"out_ch": 8, "res_ch": 16},
        ((1, 3, 32, 32),),
    ),
    "geometric-mlp": ("torch_geometric.nn.MLP", ([5, 16, 3],), {}, ((6, 5),)),
}

MODELS = {
    **{name: (lambda name=name, side=side: backbone(name, side)) for name, side in SIDES.items()},
    **{name: (lambda given=given: architecture(*given)) for name, given in ARCHITECTURES.items()},
    **{name: (lambda given=given: by_class(*given)) for name, given in CLASSES.items()},
    "dcn": lambda: deepctr("DCN"),
}
