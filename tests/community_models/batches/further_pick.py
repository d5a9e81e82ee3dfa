"""One or two more models of each package that users deploy; none was left out for failing."""

from __future__ import annotations

from typing import Any

from tests.zoo.models import GROUPED, SMALL, pixels, tokens, values

from .builders import architecture, backbone, by_class

#: The side of the picture that each backbone of timm takes.
SIDES = {
    "efficientvit_b0": 64,
    "inception_next_atto": 64,
    "mambaout_femto": 64,
    "mixer_s32_224": 224,
    "nest_tiny": 224,
    "pit_ti_224": 224,
    "tnt_s_legacy_patch16_224": 224,
    "visformer_tiny": 224,
    "xception41": 64,
}

#: Of transformers: the class, the function of its inputs, its config on top of the zoo's ``SMALL``.
ARCHITECTURES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "bamba": (
        "BambaForCausalLM",
        tokens(),
        {**GROUPED, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8}
        | {"mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 4},
    ),
    "nemotron": ("NemotronForCausalLM", tokens(), GROUPED),
    "ernie4-5": ("Ernie4_5ForCausalLM", tokens(), GROUPED),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", tokens(), {**GROUPED, "head_dim": 8}),
    "bitnet": ("BitNetForCausalLM", tokens(), GROUPED),
    "nomic-bert": ("NomicBertModel", tokens(), {}),
    "lilt": (
        "LiltModel",
        lambda: {**tokens()(), "bbox": boxes(12)},
        {"hidden_size": 48, "max_2d_position_embeddings": 64, "channel_shrink_ratio": 2},
    ),
    "m2m": (
        "M2M100Model",
        lambda: {**tokens()(), "decoder_input_ids": tokens(5)()["input_ids"]},
        {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
        | {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
    ),
    "cvt": (
        "CvtModel",
        pixels(64),
        {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 4], "depth": [1, 2, 3]},
    ),
    "clipseg": (
        "CLIPSegForImageSegmentation",
        lambda: {**tokens(8)(), **pixels(32)()},
        {
            "text_config": {**SMALL, "eos_token_id": 2},
            "vision_config": {**SMALL, "image_size": 32, "patch_size": 8},
            "extract_layers": [0, 1],
            "reduce_dim": 16,
            "decoder_num_attention_heads": 4,
            "decoder_intermediate_size": 32,
            "projection_dim": 16,
        },
    ),
    "maskformer-swin": (
        "MaskFormerSwinBackbone",
        pixels(64),
        {"image_size": 64, "embed_dim": 8, "depths": [1, 1], "window_size": 4}
        | {"num_attention_heads": [2, 2]},
    ),
    "sam2-vision": (
        "Sam2VisionModel",
        pixels(128),
        {
            "backbone_config": {
                "model_type": "sam2_hiera_det_model",
                "hidden_size": 16,
                "image_size": [128, 128],
                "blocks_per_stage": [1, 2, 2, 1],
                "embed_dim_per_stage": [16, 32, 64, 128],
                "num_attention_heads_per_stage": [1, 2, 4, 8],
                "global_attention_blocks": [2],
                "window_positional_embedding_background_size": [4, 4],
            },
            "backbone_channel_list": [128, 64, 32, 16],
            "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
            "fpn_hidden_size": 16,
        },
    ),
    "unispeech": (
        "UniSpeechModel",
        values("input_values", 1, 800),
        {"conv_dim": [16, 16], "conv_stride": [5, 4], "conv_kernel": [10, 4]}
        | {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8}
        | {"num_conv_pos_embedding_groups": 4},
    ),
    "univnet": (
        "UnivNetModel",
        lambda: {
            **values("input_features", 1, 6, 20)(),
            **values("noise_sequence", 1, 6, 8)(),
        },
        {"model_in_channels": 8, "model_hidden_channels": 8, "num_mel_bins": 20}
        | {"kernel_predictor_hidden_channels": 8, "initializer_range": 0.3},
    ),
    "timesfm": (
        "TimesFmModel",
        lambda: {
            **values("past_values", 2, 32)(),
            "past_values_padding": zeros(2, 32),
            "freq": zeros(2, 1),
        },
        {"patch_length": 8, "context_length": 32, "horizon_length": 8, "head_dim": 8},
    ),
}

#: By name: the place of the class, its positional arguments, its options, the inputs' shapes.
CLASSES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[tuple[int, ...], ...]]] = {
    "convnext_tiny": ("torchvision.models.convnext_tiny", (), {}, ((1, 3, 64, 64),)),
    "inception_v3": (
        "torchvision.models.inception_v3",
        (),
        {"init_weights": False, "transform_input": True},
        ((1, 3, 96, 96),),
    ),
    "vit_b_16": (
        "torchvision.models.VisionTransformer",
        (32, 8, 2, 4, 32, 64),
        {},
        ((1, 3, 32, 32),),
    ),
    "mc3_18": ("torchvision.models.video.mc3_18", (), {}, ((1, 3, 8, 32, 32),)),
    "smp-linknet": (
        "segmentation_models_pytorch.Linknet",
        ("mobilenet_v2",),
        {"encoder_weights": None},
        ((1, 3, 64, 64),),
    ),
    "monai-attention-unet": (
        "monai.networks.nets.AttentionUnet",
        (3, 1, 2, (8, 16, 32), (2, 2)),
        {},
        ((1, 1, 16, 16, 16),),
    ),
    "monai-vnet": ("monai.networks.nets.VNet", (), {}, ((1, 1, 32, 32, 32),)),
    "monai-densenet": (
        "monai.networks.nets.DenseNet121",
        (3, 1, 2),
        {},
        ((1, 1, 32, 32, 32),),
    ),
    "monai-highresnet": ("monai.networks.nets.HighResNet", (2, 1, 2), {}, ((1, 1, 32, 32),)),
    "spandrel-dat": (
        "spandrel.architectures.DAT.DAT",
        (),
        {"img_size": 16, "embed_dim": 48, "split_size": [4, 4], "depth": [2], "num_heads": [2]},
        ((1, 3, 16, 16),),
    ),
    "spandrel-scunet": (
        "spandrel.architectures.SCUNet.SCUNet",
        (),
        {"config": [1] * 7, "dim": 64, "input_resolution": 64},
        ((1, 3, 64, 64),),
    ),
    "spandrel-span": (
        "spandrel.architectures.SPAN.SPAN",
        (),
        {"num_in_ch": 3, "num_out_ch": 3, "feature_channels": 16, "upscale": 2},
        ((1, 3, 24, 24),),
    ),
    "spandrel-omnisr": (
        "spandrel.architectures.OmniSR.OmniSR",
        (),
        {"num_feat": 16, "res_num": 1},
        ((1, 3, 32, 32),),
    ),
    "wav2letter": ("torchaudio.models.Wav2Letter", (8, "mfcc", 13), {}, ((1, 13, 60),)),
    "squim": ("torchaudio.models.squim_objective_base", (), {}, ((1, 8000),)),
    "mfcc": (
        "torchaudio.transforms.MFCC",
        (8000, 13),
        {"melkwargs": {"n_fft": 256, "n_mels": 23}},
        ((1, 8000),),
    ),
    "resample": ("torchaudio.transforms.Resample", (48000, 16000), {}, ((2, 4800),)),
    "xvector": (
        "speechbrain.lobes.models.Xvector.Xvector",
        (),
        {"in_channels": 20, "tdnn_channels": [16] * 4 + [32], "lin_neurons": 16},
        ((2, 30, 20),),
    ),
    "speaker-resnet": (
        "speechbrain.lobes.models.ResNet.ResNet",
        (),
        {"input_size": 40, "channels": [8, 8, 16, 16], "lin_neurons": 16},
        ((2, 32, 40),),
    ),
    "dptnet": (
        "asteroid.models.DPTNet",
        (2,),
        {
            "n_filters": 16,
            "bn_chan": 16,
            "hid_size": 8,
            "chunk_size": 10,
            "n_repeats": 1,
            "n_heads": 2,
        },
        ((1, 400),),
    ),
    "sudormrf": (
        "asteroid.models.SuDORMRFNet",
        (2,),
        {"bn_chan": 16, "num_blocks": 1, "upsampling_depth": 3, "n_filters": 32},
        ((1, 2000),),
    ),
    "doctr-viptr": (
        "doctr.models.viptr_tiny",
        (),
        {"pretrained_backbone": False, "exportable": True},
        ((1, 3, 32, 128),),
    ),
    "doctr-magc": ("doctr.models.magc_resnet31", (False,), {}, ((1, 3, 32, 32),)),
    "kornia-lab": ("kornia.color.RgbToLab", (), {}, ((1, 3, 32, 32),)),
    "kornia-dexined": ("kornia.models.dexined.DexiNed", (False,), {}, ((1, 3, 64, 64),)),
    "kornia-ssim": ("kornia.metrics.SSIM", (5,), {}, ((1, 3, 32, 32), (1, 3, 32, 32))),
    "mtcnn-onet": ("facenet_pytorch.models.mtcnn.ONet", (False,), {}, ((2, 3, 48, 48),)),
    "rtdl-resnet": (
        "rtdl_revisiting_models.ResNet",
        (),
        {"d_in": 6, "d_out": 2, "n_blocks": 2, "d_block": 16, "d_hidden": 32}
        | {"d_hidden_multiplier": None, "dropout1": 0.1, "dropout2": 0.0},
        ((4, 6),),
    ),
    "piq-gmsd": ("piq.GMSDLoss", (), {}, ((1, 3, 64, 64), (1, 3, 64, 64))),
    "piq-vsi": ("piq.VSILoss", (), {}, ((1, 3, 64, 64), (1, 3, 64, 64))),
    "uno": (
        "neuralop.models.UNO",
        (2, 1, 8),
        {
            "n_layers": 3,
            "channel_mlp_skip": "linear",
            "uno_out_channels": [8, 8, 8],
            "uno_n_modes": [[4, 4]] * 3,
        }
        | {"uno_scalings": [[1.0, 1.0], [0.5, 0.5], [2.0, 2.0]]},
        ((1, 2, 16, 16),),
    ),
    "julius-lowpass": ("julius.LowPassFilters", ([0.1, 0.2],), {}, ((2, 600),)),
    "nnaudio-gammatone": (
        "nnAudio.features.Gammatonegram",
        (),
        {"sr": 8000, "n_fft": 256, "n_bins": 24, "verbose": False},
        ((1, 4000),),
    ),
    "vit-mobile": (
        "vit_pytorch.mobile_vit.MobileViT",
        ((64, 64), [16, 24, 32], [8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 48], 10),
        {},
        ((1, 3, 64, 64),),
    ),
    "vit-t2t": (
        "vit_pytorch.t2t.T2TViT",
        (),
        {"image_size": 64, "num_classes": 5, "dim": 32, "depth": 1, "heads": 2, "mlp_dim": 32}
        | {"t2t_layers": ((7, 4), (3, 2))},
        ((1, 3, 64, 64),),
    ),
    "vit-region": (
        "vit_pytorch.regionvit.RegionViT",
        (),
        {"dim": (8, 16, 16, 32), "depth": (1, 1, 1, 1), "num_classes": 5, "window_size": 2}
        | {"tokenize_local_3_conv": False},
        ((1, 3, 64, 64),),
    ),
    "unet-3d-condition": (
        "diffusers.UNet3DConditionModel",
        (),
        {"block_out_channels": (8, 16), "norm_num_groups": 4, "cross_attention_dim": 16}
        | {"down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"), "layers_per_block": 1}
        | {"up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"), "attention_head_dim": 4},
        ((1, 4, 2, 8, 8), (), (1, 5, 16)),
    ),
    "oobleck": (
        "diffusers.AutoencoderOobleck",
        (8, [2, 4], [1, 2], 8, 4, 2),
        {},
        ((1, 2, 512),),
    ),
}

#: The networks of torch_geometric, on a graph of six nodes.
GRAPHS = {"edge-cnn": ("EdgeCNN", {}), "graph-unet": ("GraphUNet", {"depth": 2})}


def boxes(length: int) -> Any:
    """A box on the page for each token."""
    import torch

    corners = torch.randint(0, 30, (1, length, 2))
    return torch.cat([corners, corners + torch.randint(1, 30, (1, length, 2))], -1)


def zeros(*shape: int) -> Any:
    """Whole zeros."""
    import torch

    return torch.zeros(shape, dtype=torch.int64)


def graph(name: str) -> tuple[Any, Any]:
    """A network on the edges between six nodes."""
    import torch
    from torch_geometric.nn import models

    kind, options = GRAPHS[name]
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    depth = {} if options else {"num_layers": 2}
    model = getattr(models, kind)(5, 16, out_channels=3, **depth, **options)
    return model, {"x": torch.randn(6, 5), "edge_index": edges}


def clicks(kind: str) -> tuple[Any, Any]:
    """A click's probability from a table of floats."""
    from .tables import deepctr

    return deepctr(kind)


def value_function() -> tuple[Any, Any]:
    """The values of moves in a game from an image, by stable-baselines3's DQN."""
    import numpy as np
    import torch
    from gymnasium import spaces
    from stable_baselines3.dqn.policies import CnnPolicy

    seen = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    policy = CnnPolicy(seen, spaces.Discrete(4), lambda _: 1e-3)
    return policy.q_net, torch.randint(0, 255, (1, 4, 84, 84), dtype=torch.uint8)


def disk() -> tuple[Any, Any]:
    """The key points of an image and their descriptors, by a method of the module."""
    import torch
    from kornia.feature import DISK

    return DISK().heatmap_and_dense_descriptors, torch.rand(1, 3, 64, 64)


def lookup_free() -> tuple[Any, Any]:
    """A codebook made of signs."""
    import torch
    from vector_quantize_pytorch import LFQ

    return LFQ(codebook_size=16, dim=4), torch.randn(1, 5, 4)


def spherical_harmonics() -> tuple[Any, Any]:
    """Directions as e3nn expands them."""
    import torch
    from e3nn import o3

    return o3.SphericalHarmonics("0e + 1o + 2e", normalize=True), torch.randn(5, 3)


def memory_decoder() -> tuple[Any, Any]:
    """x-transformers' decoder with memory tokens, gated units and a norm of its queries."""
    import torch
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=32, depth=2, heads=4, attn_dim_head=8, ff_glu=True, attn_qk_norm=True, use_rmsnorm=True
    )
    model = TransformerWrapper(
        num_tokens=50, max_seq_len=16, num_memory_tokens=3, attn_layers=layers
    )
    return model, torch.randint(0, 50, (1, 12))


MODELS = {
    **{name: (lambda name=name, side=side: backbone(name, side)) for name, side in SIDES.items()},
    **{name: (lambda given=given: architecture(*given)) for name, given in ARCHITECTURES.items()},
    **{name: (lambda given=given: by_class(*given)) for name, given in CLASSES.items()},
    **{name: (lambda name=name: graph(name)) for name in GRAPHS},
    "fibinet": lambda: clicks("FiBiNET"),
    "nfm": lambda: clicks("NFM"),
    "dqn-pictures": value_function,
    "kornia-disk": disk,
    "lookup-free-quantise": lookup_free,
    "spherical-harmonics": spherical_harmonics,
    "decoder-memory": memory_decoder,
}
