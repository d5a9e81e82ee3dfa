"""Packages of one model or of one idea: voices, operators of physics, metrics, flows, sentences."""

from __future__ import annotations

from typing import Any

SECOND = 8000


def silero() -> tuple[Any, Any]:
    """The voice activity detector with its weights, a script that stores its state."""
    import torch
    from silero_vad import load_silero_vad

    return load_silero_vad(), (torch.randn(1, 512), 16000)


def resemblyzer() -> tuple[Any, Any]:
    """The embedding of a voice, with its weights."""
    import torch
    from resemblyzer import VoiceEncoder

    return VoiceEncoder("cpu", verbose=False), torch.rand(2, 160, 40)


def snac() -> tuple[Any, Any]:
    """A codec of several rates; without the noise that its decoder adds."""
    import torch
    from snac import SNAC

    model = SNAC(24000, 16, [2, 4, 8], None, 64, [8, 4, 2], None, 64, 8, [4, 2, 1], noise=False)
    return model, torch.randn(1, 1, 2048)


def nnaudio(kind: str) -> tuple[Any, Any]:
    """A spectrogram by convolutions."""
    import torch
    from nnAudio import features

    options = {"n_bins": 36} if kind == "CQT2010v2" else {"n_fft": 256}
    return getattr(features, kind)(sr=SECOND, verbose=False, **options), torch.randn(1, SECOND)


def torchlibrosa() -> tuple[Any, Any]:
    """The front end of many taggers of sound."""
    import torch
    from torchlibrosa.stft import LogmelFilterBank, Spectrogram

    front = Spectrogram(n_fft=256, hop_length=80)
    return torch.nn.Sequential(front, LogmelFilterBank(sr=SECOND, n_fft=256)), torch.randn(1, 4000)


def julius() -> tuple[Any, Any]:
    """Sound from 44.1 to 16 kHz."""
    import torch
    from julius import ResampleFrac

    return ResampleFrac(441, 160), torch.randn(2, 4410)


def fno(kind: str) -> tuple[Any, Any]:
    """A neural operator: weights that are complex, on the modes of a Fourier transform."""
    import torch
    from neuralop import models

    model = getattr(models, kind)(n_modes=(6, 6), in_channels=2, out_channels=1, hidden_channels=12)
    return model, torch.randn(1, 2, 16, 16)


def liquid(kind: str) -> tuple[Any, Any]:
    """A recurrent network in continuous time."""
    import ncps.torch
    import torch

    return getattr(ncps.torch, kind)(5, 12), torch.randn(2, 7, 5)


def quality(kind: str) -> tuple[Any, Any]:
    """The similarity of two images, a metric of piq."""
    import piq
    import torch

    return getattr(piq, kind)(), (torch.rand(1, 3, 96, 96), torch.rand(1, 3, 96, 96))


def similarity() -> tuple[Any, Any]:
    """SSIM as a function, not a module."""
    import torch
    from pytorch_msssim import ssim

    def loss(image: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        return 1 - ssim(image, reference, data_range=1.0)

    return loss, (torch.rand(2, 3, 48, 48), torch.rand(2, 3, 48, 48))


def effdet() -> tuple[Any, Any]:
    """EfficientDet: five levels of classes and of boxes."""
    import torch
    from effdet import EfficientDet, get_efficientdet_config

    config = get_efficientdet_config("efficientdet_lite0")
    config.image_size = [128, 128]
    return EfficientDet(config, pretrained_backbone=False), torch.randn(1, 3, 128, 128)


def nnunet() -> tuple[Any, Any]:
    """nnU-Net's network in three dimensions, one output a resolution."""
    import torch
    from dynamic_network_architectures.architectures.unet import PlainConvUNet
    from torch import nn

    model = PlainConvUNet(
        *(1, 3, (8, 16, 32), nn.Conv3d, 3, (1, 2, 2), 2, 3, 2),
        conv_bias=True,
        norm_op=nn.InstanceNorm3d,
        norm_op_kwargs={"affine": True},
        nonlin=nn.LeakyReLU,
        deep_supervision=True,
    )
    return model, torch.randn(1, 1, 16, 16, 16)


def sentences() -> tuple[Any, Any]:
    """A sentence transformer's layers, called with the features that its tokenizer returns."""
    import torch
    from sentence_transformers.models import Dense, Normalize, Pooling
    from transformers import BertConfig, BertModel

    from tests.zoo.models import SMALL

    class Sentences(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            small = {key: value for key, value in SMALL.items() if key != "num_labels"}
            self.encoder = BertModel(BertConfig(**small))
            self.head = torch.nn.Sequential(
                Pooling(32, pooling_mode="mean"), Dense(32, 16), Normalize()
            )

        def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
            states = self.encoder(**features).last_hidden_state
            return self.head({**features, "token_embeddings": states})["sentence_embedding"]

    mask = torch.tensor([[1] * 9 + [0] * 3, [1] * 12])
    features = {"input_ids": torch.randint(3, 99, (2, 12)), "attention_mask": mask}
    return Sentences(), {"features": features}


def flow(kind: str) -> tuple[Any, Any]:
    """The density of a normalising flow."""
    import torch
    from nflows import distributions, flows, transforms

    base = distributions.StandardNormal([4])
    if kind == "affine":
        layer: Any = transforms.MaskedAffineAutoregressiveTransform(4, 16)
    else:
        layer = transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
            4, 16, num_bins=5, tails="linear", tail_bound=3.0
        )
    model = flows.Flow(
        transforms.CompositeTransform([transforms.ReversePermutation(4), layer]), base
    )

    def density(sample: torch.Tensor) -> torch.Tensor:
        return model.log_prob(sample)

    return density, torch.randn(6, 4)


def efficientnet() -> tuple[Any, Any]:
    """The first port of EfficientNet, with its own swish and padding."""
    import torch
    from efficientnet_pytorch import EfficientNet

    return EfficientNet.from_name("efficientnet-b0"), torch.randn(1, 3, 64, 64)


def kan() -> tuple[Any, Any]:
    """A Kolmogorov-Arnold network of splines."""
    import torch
    from kan import KAN

    return KAN(width=[4, 5, 1], grid=5, k=3, auto_save=False).speed(), torch.rand(6, 4)


MODELS = {
    "silero-vad": silero,
    "resemblyzer": resemblyzer,
    "snac": snac,
    "nnaudio-stft": lambda: nnaudio("STFT"),
    "nnaudio-cqt": lambda: nnaudio("CQT2010v2"),
    "nnaudio-mfcc": lambda: nnaudio("MFCC"),
    "torchlibrosa": torchlibrosa,
    "julius-resample": julius,
    "fno": lambda: fno("FNO"),
    "tfno": lambda: fno("TFNO"),
    "liquid-cfc": lambda: liquid("CfC"),
    "liquid-ltc": lambda: liquid("LTC"),
    "piq-vif": lambda: quality("VIFLoss"),
    "piq-haarpsi": lambda: quality("HaarPSILoss"),
    "piq-fsim": lambda: quality("FSIMLoss"),
    "ssim-function": similarity,
    "efficientdet": effdet,
    "nnunet": nnunet,
    "sentence-transformer": sentences,
    "flow-affine": lambda: flow("affine"),
    "flow-spline": lambda: flow("spline"),
    "efficientnet-pytorch": efficientnet,
    "kan": kan,
}
