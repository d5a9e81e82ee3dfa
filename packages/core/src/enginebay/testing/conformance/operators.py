"""Networks of one operator each: which of them a backend verifies, refuses or gets wrong.

Collected for ``--operators`` alone. A network that the backend refuses is skipped, and one that it
neither refuses nor verifies fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
from enginebay.errors import EnginebayError, NotVerifiedError
from enginebay.testing.conformance.command_line import OfTheCommandLine
from enginebay.testing.conformance.suite import UnderTest

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from enginebay.testing.conformance.kit import Kit

#: The networks of each group, as Python writes them over the names of ``inputs``; `nn.…` is a
#: module, and the name of its input stands behind it.
OPERATORS = {
    "arithmetic": """
        x + y; x - y; x * y; x / y; -x; x + 1; 2 - x; x * 0.5; 1 / p; x ** 2; x ** 3; p ** 0.5
        p ** y; torch.add(x, y, alpha=2); torch.rsub(x, y); torch.addcmul(x, x, y)
        torch.addcdiv(x, y, p); torch.lerp(x, y, 0.3); x // p; x % p; torch.fmod(x, p)
        torch.div(x, p, rounding_mode="trunc"); x.abs(); x.sign(); x.square(); p.sqrt(); p.rsqrt()
        p.reciprocal(); x.exp(); x.exp2(); x.expm1(); p.log(); p.log2(); p.log10(); p.log1p()
        x.sin(); x.cos(); x.tan(); x.sinh(); x.cosh(); x.tanh(); u.asin(); u.acos(); x.atan()
        torch.atan2(x, y); x.asinh(); (p + 1).acosh(); u.atanh(); x.erf(); x.erfc(); u.erfinv()
        p.lgamma(); x.sigmoid(); u.logit(0.01); torch.logaddexp(x, y); torch.hypot(x, y)
        torch.xlogy(x, p); x.sinc(); x.floor(); x.ceil(); x.round(); x.trunc(); x.frac()
        torch.maximum(x, y); torch.minimum(x, y); torch.fmax(x, y); torch.fmin(x, y)
        x.clamp(-0.5, 0.5); x.clamp(min=0); torch.copysign(x, y); x.nan_to_num(); x.deg2rad(); n + k
        n - k; n * k; n // k; n % k; n / k; n.abs(); -n; n & k; n | k; n ^ k; ~n; n << 2; n >> 1
        n.float(); x.int(); x.bool(); m.float(); x.half().float()
        """,
    "activations": """
        F.relu(x); F.relu6(x); F.leaky_relu(x); F.elu(x); F.celu(x); F.selu(x); F.gelu(x)
        F.gelu(x, approximate="tanh"); F.silu(x); F.mish(x); F.softplus(x); F.softsign(x)
        F.hardtanh(x); F.hardsigmoid(x); F.hardswish(x); F.hardshrink(x); F.softshrink(x)
        F.tanhshrink(x); F.threshold(x, 0.1, 0.0); F.logsigmoid(x); F.glu(x); F.softmax(x, -1)
        F.log_softmax(x, 1); F.softmin(x, -1); nn.PReLU(3) image; F.dropout(x, training=False)
        """,
    "comparisons": """
        x < y; x <= y; x > 0; x >= y; x == x.round(); x != y; n == k; n < k; m & (x > 0)
        m | (x > 0); m ^ (x > 0); ~m; torch.logical_not(x); torch.logical_and(x, m); x.log().isnan()
        (1 / x.round()).isinf(); (1 / x.round()).isfinite(); x.signbit(); torch.isclose(x, y)
        torch.where(m, x, y); torch.where(x > 0, x, 0.0); x.masked_fill(m, -1.0)
        torch.heaviside(x, y)
        """,
    "reductions": """
        x.sum(); x.sum(-1); x.sum((1, 2), keepdim=True); x.mean(); x.mean(-1); x.prod(-1)
        x.amax(-1); x.amin(1); x.max(); x.min(); x.max(-1)[0]; x.max(-1)[1]; x.min(1)[0]
        x.argmax(-1); x.argmin(-1); x.argmax(); x.var(-1); x.std(-1); x.std(-1, unbiased=False)
        x.norm(); torch.linalg.vector_norm(x, 1, -1); x.logsumexp(-1); (x > 0.9).any(-1)
        (x > -0.9).all(-1); m.sum(-1); n.sum(-1); n.amax(-1); x.median(-1)[0]; x.cumsum(-1)
        x.cumprod(-1); x.cummax(-1)[0]; x.logcumsumexp(-1); x.nansum(-1); x.count_nonzero(-1)
        F.normalize(x, dim=-1); torch.std_mean(x, -1)[0]; torch.aminmax(x, dim=-1)[1]
        torch.trapezoid(x); x.diff()
        """,
    "shapes": """
        x.reshape(1, -1); x.flatten(1); x.view(1, 12); x.unsqueeze(1); x.squeeze(0); x.mT
        x.permute(0, 2, 1); x.transpose(0, 2); torch.cat([x, y], 1); torch.stack([x, y])
        x.split(2, -1)[1]; x.chunk(2, -1)[0]; x.unbind(1)[1]; x.expand(2, 3, 4); x.repeat(1, 2, 1)
        x.repeat_interleave(2, 1); torch.tile(x, (1, 2)); x.roll(1, -1); x.flip(-1)
        x.rot90(1, (1, 2)); F.pad(x, (1, 2)); F.pad(x, (1, 1), "reflect")
        F.pad(x, (1, 1), "replicate"); F.pad(x, (1, 1), "circular")
        F.pixel_shuffle(image.repeat(1, 4, 1, 1), 2); F.pixel_unshuffle(image, 2)
        F.channel_shuffle(image.repeat(1, 2, 1, 1), 2); F.unfold(image, 3)
        F.fold(F.unfold(image, 2, stride=2), 8, 2, stride=2); x.tril(); x.triu()
        x.diagonal(dim1=1, dim2=2); torch.diag_embed(x); x.movedim(0, 2); x.broadcast_to(2, 3, 4)
        torch.meshgrid(x[0, 0], y[0, 0], indexing="ij")[0]; torch.zeros_like(x) + x
        torch.arange(4) + x
        """,
    "indexing": """
        x[:, 1]; x[:, 1:3]; x[..., ::2]; x[:, None]; x[:, [2, 0]]; x.select(1, 2); x.narrow(2, 1, 2)
        x.index_select(1, torch.tensor([2, 0])); x.gather(1, i); x.take_along_dim(i, 1)
        x.scatter(1, i, y); x.scatter_add(1, i, y); x.index_add(1, torch.tensor([0, 2]), y[:, :2])
        x.index_fill(1, torch.tensor([1]), 0.5); x.masked_scatter(m, y); x.sort(-1)[0]
        x.sort(-1)[1]; x.argsort(-1, descending=True); x.topk(2)[0]; x.topk(2, largest=False)[1]
        x.kthvalue(2)[0]; F.embedding(i, y[0]); F.one_hot(i, 3)
        torch.bucketize(x, torch.tensor([-0.5, 0.5])); torch.searchsorted(x.sort(-1)[0], y)
        x.take(i)
        """,
    "matrices": """
        x @ y.mT; torch.bmm(x, y.mT); torch.mm(x[0], y[0].mT); torch.mv(x[0], y[0, 0])
        torch.dot(x[0, 0], y[0, 0]); torch.outer(x[0, 0], y[0, 0])
        torch.einsum("bij,bkj->bik", x, y); torch.baddbmm(s, s, s); F.linear(x, y[0])
        torch.kron(x[0], y[0]); torch.cross(x.mT, y.mT, dim=-1); torch.cdist(x, y)
        F.cosine_similarity(x, y, -1); F.pairwise_distance(x, y); torch.trace(s[0])
        torch.linalg.det(s); torch.linalg.inv(s); torch.matrix_power(s, 2); nn.Linear(4, 5) x
        nn.Bilinear(4, 4, 2) x y; F.scaled_dot_product_attention(x, y, y)
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) steps
        """,
    "convolutions": """
        nn.Conv1d(8, 4, 3) steps.mT; nn.Conv2d(3, 4, 3) image
        nn.Conv2d(3, 4, 3, stride=2, padding=1) image; nn.Conv2d(3, 4, 3, dilation=2) image
        nn.Conv2d(3, 6, 3, groups=3) image; nn.Conv2d(3, 4, 3, padding="same") image
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect") image
        nn.Conv2d(3, 4, (1, 3), bias=False) image; nn.Conv3d(3, 4, (1, 3, 3)) image.unsqueeze(2)
        nn.ConvTranspose1d(8, 4, 3) steps.mT
        nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1) image; nn.MaxPool2d(2) image
        nn.MaxPool2d(3, 2, 1) image; nn.MaxPool2d(3, ceil_mode=True) image; nn.AvgPool2d(2) image
        nn.AvgPool2d(3, 2, 1, count_include_pad=False) image; nn.MaxPool1d(2) x
        nn.AdaptiveAvgPool2d(1) image; nn.AdaptiveAvgPool2d(3) image; nn.AdaptiveMaxPool2d(2) image
        nn.LPPool2d(2, 2) image; nn.BatchNorm2d(3) image; nn.InstanceNorm2d(3) image
        nn.GroupNorm(3, 3) image; nn.LayerNorm(4) x; nn.RMSNorm(4) x; nn.LocalResponseNorm(2) image
        F.interpolate(image, scale_factor=2); F.interpolate(image, size=5, mode="bilinear")
        F.interpolate(image, size=12, mode="bicubic")
        F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=True)
        F.grid_sample(image, u.reshape(1, 2, 3, 2), align_corners=False)
        F.affine_grid(u[:, :2, :3], (1, 3, 4, 4), align_corners=False)
        """,
    "recurrent": """
        nn.RNN(8, 4, batch_first=True) steps; nn.GRU(8, 4, batch_first=True) steps
        nn.LSTM(8, 4, batch_first=True) steps; nn.LSTM(8, 4, 2, batch_first=True) steps
        nn.LSTM(8, 4, batch_first=True, bidirectional=True) steps
        nn.GRU(8, 4, bidirectional=True) steps; nn.LSTMCell(8, 4) steps[0]
        nn.GRUCell(8, 4) steps[0]; nn.RNNCell(8, 4) steps[0]
        """,
}


def cases() -> dict[str, str]:
    """Return the networks by their names: ``reductions: x.sum()``."""
    lines = [(group, line) for group, text in OPERATORS.items() for line in text.splitlines()]
    every = [(group, one.strip()) for group, line in lines for one in line.split(";")]
    return {f"{group}: {text}": text for group, text in every if text}


def build(text: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return the network that a text stands for, and its inputs by name."""
    import torch
    from torch import nn
    from torch.nn import functional

    random = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1, 3, 4, generator=random) for _ in "xy")
    number = torch.arange(12).reshape(1, 3, 4)
    inputs = {
        "x": x,
        "y": y,
        "p": y.abs() + 0.2,
        "u": torch.sin(3 * x) * 0.9,
        "m": y > 0,
        "n": number * 5 % 17 - 8,
        "k": number % 3 + 1,
        "i": number * 7 % 3,
        "s": torch.randn(1, 4, 4, generator=random) + 4 * torch.eye(4),
        "image": torch.randn(1, 3, 8, 8, generator=random),
        "steps": torch.randn(1, 5, 8, generator=random),
    }
    names = {"torch": torch, "nn": nn, "F": functional}

    class Network(nn.Module):
        """One operator."""

        def __init__(self) -> None:
            super().__init__()
            made, _, given = text.rpartition(") ") if text.startswith("nn.") else ("", "", text)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                self.module = eval(f"{made})", names) if made else None  # noqa: S307  # of the table
            call = f"module({', '.join(given.split())})" if made else text
            self.code = compile(call, "<operator>", "eval")
            self.given = [name for name in inputs if name in self.code.co_names]

        def forward(self, *tensors: torch.Tensor) -> Any:
            given = dict(zip(self.given, tensors, strict=True))
            return eval(self.code, {**names, "module": self.module}, given)  # noqa: S307  # as above

    network = Network().eval()
    return network, {name: inputs[name] for name in network.given}


class TestOperators(OfTheCommandLine, UnderTest):
    """Each network, on the backend that the command line names."""

    @pytest.mark.parametrize("name", cases())
    def test_operators(self, kit: Kit, name: str, tmp_path: Path) -> None:
        """A network of one operator is verified or refused."""
        kit.require_engine()
        network, inputs = build(cases()[name])
        kit.require_dtypes(*(str(x.dtype).removeprefix("torch.") for x in inputs.values()))
        try:
            made = eb.deploy(network, [*inputs.values()], backend=kit.name, work_dir=tmp_path / "a")
        except NotVerifiedError:
            raise
        except EnginebayError as err:
            kit.skip(str(err))
        assert made.verdict == "verified", made.verification.summary()
