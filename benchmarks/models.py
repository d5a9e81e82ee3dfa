"""The models that are measured; ``enginebay deploy benchmarks/models.py:resnet50`` finds them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Add(nn.Module):
    """A single Add, so that a call consists of its overhead."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x + 1."""
        return x + 1.0


def add(size: int) -> tuple[nn.Module, Tensor]:
    """Return the Add with ``size`` floats."""
    return Add(), torch.linspace(-1, 1, size)


def five_layers() -> tuple[nn.Module, Tensor]:
    """Return a network so small that its deployment is torch's import and its export."""
    torch.manual_seed(0)
    convolutions = (nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2))
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(32 * 15 * 15, 10))
    return model, torch.randn(1, 3, 32, 32)


class Bottleneck(nn.Module):
    """A residual block: 1×1, 3×3 and 1×1 convolutions, four times as wide at its end."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            *_convolution(channels, width, 1),
            nn.ReLU(),
            *_convolution(width, width, 3, stride),
            nn.ReLU(),
            *_convolution(width, out, 1),
        )
        fits = stride == 1 and channels == out
        self.shortcut = (
            nn.Identity() if fits else nn.Sequential(*_convolution(channels, out, 1, stride))
        )

    def forward(self, x: Tensor) -> Tensor:
        """N×C×H×W → N×4·width×H/stride×W/stride."""
        return torch.relu(self.body(x) + self.shortcut(x))


def _convolution(channels: int, out: int, kernel: int, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(out)


def resnet50() -> tuple[nn.Module, Tensor]:
    """ResNet-50 with random weights: 25.6 M parameters, 4.1 G multiply-adds."""
    torch.manual_seed(0)
    layers = [*_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 1 if block else stride))
            channels = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
    return nn.Sequential(*layers).eval(), torch.randn(1, 3, 224, 224)


class Digits(nn.Module):
    """Two convolutions and a classifier for N×1×8×8 images."""

    def __init__(self) -> None:
        super().__init__()
        layers = (nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        more = (nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.body = nn.Sequential(*layers, *more, nn.Flatten(), nn.Linear(128, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Ten logits for each image."""
        logits: Tensor = self.body(x)
        return logits


def digits() -> tuple[nn.Module, Tensor]:
    """A network for digits, with random weights."""
    torch.manual_seed(0)
    return Digits().eval(), torch.zeros(1, 1, 8, 8)


class EncoderLayer(nn.Module):
    """A layer of BERT-base: attention with 12 heads, and a network of 3072."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(768, 768) for _ in range(4))
        self.wide = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))
        self.norms = nn.ModuleList([nn.LayerNorm(768), nn.LayerNorm(768)])

    def forward(self, x: Tensor) -> Tensor:
        """N×tokens×768 → N×tokens×768."""
        heads = [each(x).unflatten(2, (12, 64)).transpose(1, 2) for each in self._projections()]
        found = nn.functional.scaled_dot_product_attention(*heads)
        x = self.norms[0](x + self.out(found.transpose(1, 2).flatten(2)))
        output: Tensor = self.norms[1](x + self.wide(x))
        return output

    def _projections(self) -> tuple[nn.Module, nn.Module, nn.Module]:
        return self.query, self.key, self.value


def bert_base() -> tuple[nn.Module, Tensor]:
    """BERT-base's embedding and layers with random weights: 108 M parameters; 128 tokens."""
    torch.manual_seed(0)
    layers = (EncoderLayer() for _ in range(12))
    model = nn.Sequential(nn.Embedding(30522, 768), nn.LayerNorm(768), *layers)
    return model.eval(), torch.randint(0, 30522, (1, 128))


#: Bytes of weights in :func:`linear_stack`: 16 square matrices of float32.
LINEAR_BYTES = 16 * 4096 * 4096 * 4


def linear_stack() -> tuple[nn.Module, Tensor]:
    """1.07 GB of Linear layers, 16 times 4096×4096."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(4096, 4096, bias=False) for _ in range(16))), torch.randn(
        1, 4096
    )


class DecoderLayer(nn.Module):
    """Causal attention and a gated network of two widths, each added to its input."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.joined = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """N×tokens×width → the same."""
        normed = self.before(x)
        query, key, value = (
            part(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        found = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(found.transpose(1, 2).flatten(2))
        normed = self.between(x)
        added: Tensor = self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))
        return x + added


def large_decoder() -> tuple[nn.Module, Tensor]:
    """9.3 GB of weights in 40 layers, without values: they are for ``--weights``."""
    with torch.device("meta"):
        layers = (DecoderLayer(2048, 6656, 16) for _ in range(40))
        model = nn.Sequential(nn.Embedding(2048, 2048), *layers, nn.Linear(2048, 2048, bias=False))
    torch.manual_seed(0)
    return model.to_empty(device="cpu").eval(), torch.randint(0, 2048, (1, 16))
