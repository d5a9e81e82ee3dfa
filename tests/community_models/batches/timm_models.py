"""Backbones from timm, one of each family, in the smallest size that has its operators."""

from __future__ import annotations

from typing import Any

#: The side of the picture that each takes.
SIDES = {
    "tf_efficientnetv2_b0": 64,
    "mobilenetv4_conv_small": 64,
    "mobilenetv4_hybrid_medium": 64,
    "convnextv2_atto": 64,
    "maxvit_rmlp_pico_rw_256": 256,
    "coatnet_pico_rw_224": 224,
    "swinv2_tiny_window8_256": 256,
    "mvitv2_tiny": 224,
    "xcit_nano_12_p16_224": 224,
    "levit_128s": 224,
    "edgenext_xx_small": 64,
    "fastvit_t8": 256,
    "efficientformerv2_s0": 224,
    "davit_tiny": 224,
    "hiera_tiny_224": 224,
    "volo_d1_224": 224,
    "gcvit_xxtiny": 224,
    "vit_tiny_r_s16_p8_224": 224,
    "eva02_tiny_patch14_224": 224,
    "beit_base_patch16_224": 224,
    "hrnet_w18_small": 64,
    "res2net50_14w_8s": 64,
    "dla34": 64,
    "repvgg_a0": 64,
    "sequencer2d_s": 224,
}


def build(name: str) -> tuple[Any, Any]:
    """A backbone by timm's name, and a picture."""
    import timm
    import torch

    side = SIDES[name]
    return timm.create_model(name, pretrained=False), torch.randn(1, 3, side, side)


MODELS = {name: (lambda name=name: build(name)) for name in SIDES}
