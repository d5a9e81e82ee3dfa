"""Segmentation of images and of volumes, and restoration: smp, MONAI and spandrel."""

from __future__ import annotations

from importlib import import_module
from typing import Any

SMP = ("Unet", "UnetPlusPlus", "MAnet", "PSPNet", "DeepLabV3Plus", "FPN", "PAN", "UPerNet")
#: The side that the pooling of one model requires.
SIDE = 128
VOLUME = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
#: MONAI's classes, their options, and the shape of their input.
MONAI: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "UNet": ({**VOLUME, "channels": (8, 16, 32), "strides": (2, 2)}, (1, 1, 32, 32, 32)),
    "SwinUNETR": ({"in_channels": 1, "out_channels": 2, "feature_size": 12}, (1, 1, 64, 64, 64)),
    "SegResNet": ({**VOLUME, "init_filters": 8}, (1, 1, 32, 32, 32)),
    "DynUNet": (
        {**VOLUME, "kernel_size": [3, 3, 3], "strides": [1, 2, 2], "upsample_kernel_size": [2, 2]},
        (1, 1, 32, 32, 32),
    ),
    "UNETR": (
        {"in_channels": 1, "out_channels": 2, "img_size": 32, "hidden_size": 48, "mlp_dim": 96}
        | {"num_heads": 4, "feature_size": 8},
        (1, 1, 32, 32, 32),
    ),
}
#: spandrel's architectures, their options, and the channels of their input.
SPANDREL: dict[str, tuple[str, dict[str, Any], int]] = {
    "SwinIR": (
        "SwinIR.SwinIR",
        {"img_size": 16, "embed_dim": 24, "depths": [2], "num_heads": [4]} | {"window_size": 8},
        3,
    ),
    "HAT": (
        "HAT.HAT",
        {"img_size": 16, "embed_dim": 48, "depths": [2], "num_heads": [4]}
        | {"window_size": 8, "compress_ratio": 3, "squeeze_factor": 6},
        3,
    ),
    "NAFNet": ("NAFNet.NAFNet", {"width": 8, "enc_blk_nums": [1, 1], "dec_blk_nums": [1, 1]}, 3),
    "ESRGAN": ("ESRGAN.__arch.RRDB.RRDBNet", {"num_filters": 16, "num_blocks": 2}, 3),
    "RetinexFormer": ("RetinexFormer.RetinexFormer", {"n_feat": 16, "num_blocks": [1, 1, 1]}, 3),
    "LaMa": ("LaMa.LaMa", {"in_nc": 4}, 4),
}


def smp(name: str) -> tuple[Any, Any]:
    """A decoder on a small encoder."""
    import segmentation_models_pytorch
    import torch

    decoder = getattr(segmentation_models_pytorch, name)
    return decoder("resnet18", encoder_weights=None, classes=3), torch.rand(1, 3, SIDE, SIDE)


def segformer() -> tuple[Any, Any]:
    """The decoder that wants an encoder of transformers."""
    import segmentation_models_pytorch
    import torch

    model = segmentation_models_pytorch.Segformer("mit_b0", encoder_weights=None, classes=3)
    return model, torch.rand(1, 3, 64, 64)


def monai(name: str) -> tuple[Any, Any]:
    """A network of volumes."""
    import torch
    from monai.networks import nets

    options, shape = MONAI[name]
    return getattr(nets, name)(**options), torch.rand(shape)


def spandrel(name: str) -> tuple[Any, Any]:
    """An architecture that restores or enlarges pictures."""
    import torch

    place, options, channels = SPANDREL[name]
    module, _, kind = place.rpartition(".")
    model = getattr(import_module(f"spandrel.architectures.{module}"), kind)(**options)
    picture = torch.rand(1, 3, 32, 32)
    if channels == 4:  # with the mask of the area to fill
        return model, (picture, (torch.rand(1, 1, 32, 32) > 0.5).float())
    return model, picture


MODELS = {
    **{f"smp-{name.lower()}": (lambda name=name: smp(name)) for name in SMP},
    "smp-segformer": segformer,
    **{f"monai-{name.lower()}": (lambda name=name: monai(name)) for name in MONAI},
    **{f"spandrel-{name.lower()}": (lambda name=name: spandrel(name)) for name in SPANDREL},
}
