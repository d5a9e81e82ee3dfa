"""Right models whose inputs, arithmetic or decisions make them hard to verify."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .decisions import decode, is_suppressed
from .models import Case, Function
from .plant import ENGINES, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOWEST = torch.finfo(torch.float32).min
#: Ones for three rows of seven places, and a batch that may be opened.
ONES = torch.ones(3, 7)
THREE = normal(3, 7, 4, seed=41)
OPEN = {"dynamic": {name: {0: ("batch", 1, 8)} for name in ("x", "other")}}


def _bias(m: Tensor) -> Tensor:
    return torch.where(m == 0, LOWEST, 0.0)[:, None]


#: Attention in the usual forms of a mask.
ATTENTION: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "masked_fill of -1e9": lambda x, m: (
        torch.softmax((x @ x.mT).masked_fill(m[:, None] == 0, -1e9), -1) @ x
    ),
    "0 and -inf": lambda x, m: (
        torch.softmax(x @ x.mT + torch.where(m == 0, float("-inf"), 0.0)[:, None], -1) @ x
    ),
    "0 and the lowest": lambda x, m: torch.softmax(x @ x.mT + _bias(m), -1) @ x,
    "(1 - mask) * lowest": lambda x, m: (
        torch.softmax(x @ x.mT + ((1.0 - m) * LOWEST)[:, None], -1) @ x
    ),
    "SDPA of booleans": lambda x, m: functional.scaled_dot_product_attention(
        x, x, x, (m != 0)[:, None].expand(-1, 7, -1)
    ),
    "SDPA of floats": lambda x, m: functional.scaled_dot_product_attention(
        x, x, x, _bias(m).expand(-1, 7, -1)
    ),
    "causal and padding": lambda x, m: (
        torch.softmax(
            (x @ x.mT).masked_fill((m[:, None] == 0) | torch.ones(7, 7).triu(1).bool(), -1e4), -1
        )
        @ x
    ),
    "a product with the mask": lambda x, m: (
        functional.normalize(torch.softmax(x @ x.mT, -1) * m[:, None], p=1, dim=-1, eps=1e-6) @ x
    ),
}
POOLED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": lambda x, m: (x * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1),
    "mean and eps": lambda x, m: (x * m[..., None]).sum(1) / (m.sum(1, keepdim=True) + 1e-9),
    "maximum": lambda x, m: x.masked_fill(m[..., None] == 0, -1e4).amax(1),
    "the last key": lambda x, m: _at(x, (m * torch.arange(7)).argmax(1)),
    "the last of the count": lambda x, m: _at(x, (m.sum(1).long() - 1).clamp(min=0)),
    "deviation": lambda x, m: (
        (x * m[..., None]).square().sum(1) / m.sum(1, keepdim=True).clamp(min=1) + 1e-6
    ).sqrt(),
    "positions": lambda x, m: x + torch.sin(m.cumsum(1) * m)[..., None],
}


def masks() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield attention and pooling with masks of each usual form."""
    for use, model in (ATTENTION | POOLED).items():
        for engine in ENGINES:
            yield f"{use}, {engine}", partial(_function, model, (THREE, ONES), OPEN, engine)
    items = [(THREE[:1] + n / 50, (torch.arange(7) < 7 - n % 4).float()[None]) for n in range(24)]
    for (use, model), engine in itertools.product(list(ATTENTION.items())[:6], ENGINES):
        options = {"precision": "int8", "data": items}
        yield (
            f"{use}, 8 bits, {engine}",
            partial(_function, _in_layers(model), (THREE[:1], ONES[:1]), options, engine),
        )


def _at(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places[:, None, None].expand(-1, 1, 4)).squeeze(1)


def _function(
    function: Callable[..., Any], example: Any, options: dict[str, Any], engine: str = ""
) -> Case:
    return Case(Function(function), example, {**options, **({"backend": engine} if engine else {})})


_TO, _FROM = normal(4, 4, seed=42), normal(4, 5, seed=43)


def _in_layers(model: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, m: model(x @ _TO / 2, m) @ _FROM


# -- structured inputs -----------------------------------------------------------------------------

_SORTED = torch.tensor([0.1, 0.3, 0.55, 0.7, 0.95])
_ROTATION = torch.linalg.qr(normal(4, 4, seed=44)).Q
_SHARES = torch.softmax(normal(3, 5, seed=45), -1)
_EDGES = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 3, 0]])
_NODES = normal(5, 4, seed=46)
_BUCKETS, _ROWS = normal(6, 3, seed=47), normal(5, 3, seed=50)


def _interpolate(x: Tensor, knots: Tensor, heights: Tensor) -> Tensor:
    place = torch.searchsorted(knots, x).clamp(1, len(knots) - 1)
    low, high = knots[place - 1], knots[place]
    share = (x - low) / (high - low)
    return torch.lerp(heights[place - 1], heights[place], share)


STRUCTURED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "sorted boundaries": (
        lambda x, bounds: torch.searchsorted(bounds, x) + x,
        (torch.linspace(0.01, 0.99, 12).reshape(3, 4), _SORTED),
    ),
    "sorted boundaries of buckets": (
        lambda x, bounds: _BUCKETS[torch.bucketize(x, bounds)],
        (torch.linspace(0.01, 0.99, 12).reshape(3, 4), _SORTED),
    ),
    "knots of an interpolation": (
        _interpolate,
        (torch.linspace(0.15, 0.9, 12).reshape(3, 4), _SORTED, normal(5, seed=48)),
    ),
    "sorted times": (
        lambda x: torch.log(x.diff(dim=-1).clamp(min=1e-3)),
        (normal(3, 6, seed=49).abs().cumsum(-1),),
    ),
    "a cumulative distribution": (
        lambda x, draws: (draws[..., None] > x.cumsum(-1)[:, None]).sum(-1) + 0 * draws,
        (_SHARES, torch.linspace(0.02, 0.93, 12).reshape(3, 4)),
    ),
    "rows that sum to 1": (lambda x: -(x * torch.log(x)).sum(-1), (_SHARES,)),
    "divergence of rows that sum to 1": (
        lambda x, y: (x * (torch.log(x) - torch.log(y))).sum(-1),
        (_SHARES, _SHARES.flip(0)),
    ),
    "log-probabilities": (lambda x: torch.logsumexp(x, -1) + x[:, 0], (torch.log(_SHARES),)),
    "one-hot rows": (
        lambda x: _ROWS[x.argmax(-1)],
        (torch.eye(5)[[2, 0, 4]],),
    ),
    "one-hot rows of a product": (lambda x: x @ _ROWS, (torch.eye(5)[[2, 0, 4]],)),
    "one-hot integers": (
        lambda x, y: (x * y).sum(-1),
        (torch.eye(5, dtype=torch.int64)[[2, 0, 4]], normal(3, 5, seed=51)),
    ),
    "a rotation": (lambda x, r: x @ r.mT, (normal(3, 4, seed=52), _ROTATION)),
    "an angle of a rotation": (
        lambda r: torch.acos(((r.diagonal().sum() - 1) / 2).clamp(-0.999, 0.999))[None],
        (torch.linalg.qr(normal(3, 3, seed=53)).Q,),
    ),
    "symmetric": (
        lambda x: (x @ x).diagonal() + x.sum(-1),
        (_ROTATION @ _ROTATION.mT + torch.eye(4),),
    ),
    "unit vectors": (
        lambda x, y: torch.acos((x * y).sum(-1).clamp(-0.999, 0.999)),
        tuple(functional.normalize(normal(3, 4, seed=seed), dim=-1) for seed in (54, 55)),
    ),
    "probabilities": (lambda x: torch.logit(x, 1e-6), (torch.sigmoid(normal(3, 4, seed=56)),)),
    "a permutation": (
        lambda x, order: x[order],
        (normal(5, 4, seed=57), torch.tensor([3, 1, 4, 0, 2])),
    ),
    "boxes by their corners": (
        lambda x: (x[:, 2:] - x[:, :2]).prod(-1).sqrt(),
        (torch.tensor([[0.0, 1, 5, 9], [2, 2, 3, 8], [1, 0, 9, 4]]),),
    ),
    "edges of a graph": (
        lambda x, edges: x + _sum(x[edges[0]], edges[1], 5),
        (_NODES, _EDGES),
    ),
    "degrees of a graph": (
        lambda x, edges: (
            _sum(x[edges[0]], edges[1], 5) / _sum(torch.ones(7, 1), edges[1], 5).clamp(min=1)
        ),
        (_NODES, _EDGES),
    ),
    "an attention over edges": (
        lambda x, edges: _attend(x, edges),
        (_NODES, _EDGES),
    ),
    "segments": (lambda x, of: _sum(x, of, 3), (_NODES, torch.tensor([0, 0, 1, 2, 2]))),
    "an adjacency": (
        lambda x, a: torch.relu(a @ x / a.sum(-1, keepdim=True).clamp(min=1)),
        (_NODES, (normal(5, 5, seed=58) > 0).float()),
    ),
}


def _sum(values: Tensor, places: Tensor, rows: int) -> Tensor:
    """Sum the rows that have the same place."""
    index = places[:, None].expand(-1, values.shape[1])
    return torch.zeros(rows, values.shape[1]).scatter_add(0, index, values)


def _attend(x: Tensor, edges: Tensor) -> Tensor:
    score = torch.exp((x[edges[0]] * x[edges[1]]).sum(-1, keepdim=True).clamp(-5, 5))
    total = _sum(score, edges[1], 5).clamp(min=1e-6)
    return _sum(x[edges[0]] * score / total[edges[1]], edges[1], 5)


def structured() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield models whose inputs are sorted, one-hot, orthogonal, indices, or sum to 1."""
    for use, (model, example) in STRUCTURED.items():
        yield use, partial(_function, model, example, {})


# -- rounding --------------------------------------------------------------------------------------


class Cell(nn.Module):
    """A recurrent cell with one product in bfloat16."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.inner, self.outer = nn.Linear(6, 32), nn.Linear(8, 2)
        self.kernel = nn.Parameter(torch.randn(8, 32) * 0.3)

    def forward(self, series: Tensor) -> Tensor:
        state, cell = (series.new_zeros(series.shape[0], 8) for _ in range(2))
        for step in series.unbind(1):
            gates = self.inner(step) + (state.to(self.dtype) @ self.kernel.to(self.dtype)).float()
            i, f, g, o = gates.chunk(4, 1)
            cell = f.sigmoid() * cell + i.exp().clamp(max=4) * g.tanh()
            state = o.sigmoid() * cell / (1 + cell.abs())
        return self.outer(state)


def _step(x: Tensor, scale: float, low: int, high: int) -> Tensor:
    return (x / scale).round().clamp(low, high) * scale


class Quantized(nn.Module):
    """Layers with steps between them, as after training with quantisation."""

    def __init__(self, step: Callable[[Tensor, float, int, int], Tensor], bits: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)
        self.step, self.top = step, 2 ** (bits - 1) - 1

    def forward(self, x: Tensor) -> Tensor:
        x = self.step(x, 4 / self.top, -self.top - 1, self.top)
        weight = self.step(self.first.weight, 0.2 / self.top, -self.top - 1, self.top)
        x = functional.conv2d(x, weight, self.first.bias).relu()
        return self.second(self.step(x, 4 / self.top, 0, 2 * self.top + 1).mean((2, 3)))


def _fake(x: Tensor, scale: float, low: int, high: int) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(x, scale, 0, low, high)


def _fake_by_channel(x: Tensor, scale: float, low: int, high: int) -> Tensor:
    scales = scale * (1 + torch.arange(x.shape[0]) / 9)
    zeros = torch.zeros(x.shape[0], dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, low, high)


def _seeded(
    build: Callable[[], nn.Module], example: Any, options: dict[str, Any], told: str = ""
) -> Case:
    torch.manual_seed(0)
    return Case(build().eval(), example, options, told)


IMAGE = normal(1, 3, 32, 32, seed=61)
ROUNDED: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "a product in bfloat16": (partial(Cell, torch.bfloat16), normal(2, 7, 6, seed=62)),
    "a product in float16": (partial(Cell, torch.float16), normal(2, 7, 6, seed=62)),
    "steps of 8 bits": (partial(Quantized, _fake, 8), IMAGE[..., :8, :8]),
    "steps of 8 bits for each channel": (
        partial(Quantized, _fake_by_channel, 8),
        IMAGE[..., :8, :8],
    ),
    "rounded steps of 8 bits": (partial(Quantized, _step, 8), IMAGE[..., :8, :8]),
    "rounded steps of 4 bits": (partial(Quantized, _step, 4), IMAGE[..., :8, :8]),
}


def rounded() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield models in which rounding is coarser than the outputs' dtype."""
    for (use, (build, example)), engine in itertools.product(ROUNDED.items(), ENGINES):
        # No engine has the roundings of a product in bfloat16, nor its tolerance all others.
        told = r"mm in bfloat16 \(.*right\.py:\d+\)" if "bfloat16" in use else ""
        yield f"{use}, {engine}", partial(_seeded, build, example, {"backend": engine}, told)


# -- networks --------------------------------------------------------------------------------------


class Mixture(nn.Module):
    """A mixture of eight experts; ``best`` is how many of them a row takes."""

    def __init__(self, best: int) -> None:
        super().__init__()
        self.best, self.gate = best, nn.Linear(8, 8)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(8)
        )

    def forward(self, x: Tensor) -> Tensor:
        values, places = torch.softmax(self.gate(x), -1).topk(self.best)
        shares = torch.zeros_like(x).scatter(1, places, values / values.sum(-1, keepdim=True))
        outputs = torch.stack([expert(x) for expert in self.experts], 1)
        return (outputs * shares[..., None]).sum(1)


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        self.short = nn.Conv2d(inner, outer, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.short(x))


def resnet() -> nn.Module:
    """Eight residual blocks, as in ResNet-18."""
    widths = (8, 8, 16, 16, 32, 32, 64, 64)
    blocks = [
        Residual(inner, outer, 1 if inner == outer else 2)
        for inner, outer in zip((8, *widths), widths, strict=False)
    ]
    start = (nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    end = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return nn.Sequential(*start, nn.MaxPool2d(3, 2, 1), *blocks, *end)


class Unet(nn.Module):
    """Halves an image twice and doubles it again: sizes are multiples of 4."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(16, 3, 2, 2)])

    def forward(self, x: Tensor) -> Tensor:
        half = self.down[0](x).relu()
        back = self.up[0](self.down[1](half).relu())
        return self.up[1](torch.cat([half, back], 1))


class Patches(nn.Module):
    """A transformer of patches whose positions are interpolated."""

    def __init__(self, *, fixed: bool) -> None:
        super().__init__()
        self.fixed, self.cut = fixed, nn.Conv2d(3, 16, 8, 8)
        self.inner, self.outer = nn.Linear(16, 48), nn.Linear(16, 5)
        self.positions = nn.Parameter(torch.randn(1, 16, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.cut(x)
        where = self.positions
        if not self.fixed:
            where = functional.interpolate(where, x.shape[2:], mode="bilinear")
        query, key, value = self.inner((x + where).flatten(2).mT).chunk(3, -1)
        return self.outer((torch.softmax(query @ key.mT / 4, -1) @ value).mean(1))


class Detector(nn.Module):
    """Decodes boxes, and keeps those that no better one overlaps."""

    def __init__(self, spread: float) -> None:
        super().__init__()
        self.spread, self.head = spread, nn.Conv2d(3, 6, 8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.head(x).flatten(2).mT
        lost = is_suppressed(found, self.spread)
        return decode(found, self.spread), torch.sigmoid(found[..., 4]).masked_fill(lost, 0)


class Peaks(nn.Module):
    """Takes the largest of a heat map that are maxima of their surroundings."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 2, 3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        heat = torch.sigmoid(self.head(x))
        peaks = heat * (functional.max_pool2d(heat, 3, 1, 1) == heat)
        return peaks.flatten(1).topk(4).values


class Grid(nn.Module):
    """YOLO's head: boxes in pixels beside scores, one output."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 9, 8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(x)
        places = torch.stack(
            torch.meshgrid(torch.arange(y.shape[2]), torch.arange(y.shape[3]), indexing="ij")
        )
        centre = (torch.sigmoid(y[:, :2]) + places) * 8
        return torch.cat([centre, y[:, 2:4].exp() * 8, torch.sigmoid(y[:, 4:])], 1)


class Decoder(nn.Module):
    """One step of a decoder, with the keys of the steps before as an input."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.outer = nn.Embedding(50, 8), nn.Linear(8, 24), nn.Linear(8, 50)

    def forward(self, x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        query, key, value = self.inner(self.table(x)).chunk(3, -1)
        kept = torch.cat([other, torch.cat([key, value], -1)], 1)
        keys, values = kept.chunk(2, -1)
        return self.outer(torch.softmax(query @ keys.mT / 8**0.5, -1) @ values), kept


class Step(nn.Module):
    """One step of a recurrent cell; its state is an input and an output."""

    def __init__(self, cell: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.cell = cell(4, 6)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return self.cell(x, other)


class Lstm(nn.Module):
    """One step of an LSTM, with both states as inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)

    def forward(self, x: Tensor, other: Tensor, third: Tensor) -> tuple[Tensor, Tensor]:
        return self.cell(x, (other, third))


class Diffusion(nn.Module):
    """A denoiser with time steps and classes."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.classes = nn.Linear(8, 3), nn.Embedding(10, 3)
        self.body = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor, other: Tensor, third: Tensor) -> Tensor:
        angle = other[:, None] * torch.exp(-torch.arange(4) * 2.0)
        about = self.time(torch.cat([angle.sin(), angle.cos()], -1)) + self.classes(third)
        return self.body(x + about[..., None, None])


class Words(nn.Module):
    """A classifier of ids, which finds the padding itself."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.outer = nn.Embedding(200, 8, padding_idx=0), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        m = (x != 0).float()
        return self.outer(
            (self.table(x) * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1)
        )


class Lengths(nn.Module):
    """A recurrent network that takes the output at each row's length."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 6, batch_first=True)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        outputs = self.layer(x)[0]
        return outputs.gather(1, (other - 1)[:, None, None].expand(-1, 1, 6)).squeeze(1)


class Greedy(nn.Module):
    """The best class of each frame, and its score."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.Linear(4, 9)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.log_softmax(self.outer(x), -1)
        return scores.argmax(-1), scores.amax(-1)


class Beam(nn.Module):
    """One step of a beam search: the best continuations and their beams."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.Linear(4, 9)

    def forward(self, x: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = torch.log_softmax(self.outer(x), -1) + other[:, None]
        best, places = scores.flatten().topk(3)
        return best, places // 9, places % 9


class Exit(nn.Module):
    """Takes an early result for each row that is sure."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.outer = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        early = self.outer(torch.relu(self.first(x)))
        late = self.outer(torch.relu(self.second(torch.relu(self.first(x)))))
        is_sure = torch.softmax(early, -1).amax(-1, keepdim=True) > 0.3
        return torch.where(is_sure, early, late)


class Codes(nn.Module):
    """Replaces each row by the nearest code."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(16, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        places = (x[:, None] - self.codes).square().sum(-1).argmin(-1)
        return places, self.codes[places]


_WIDE = {2: ("height", 32, 96), 3: ("width", 32, 96)}
_BATCH = {0: ("batch", 1, 8)}
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Any, dict[str, Any]]] = {
    "the best expert": (partial(Mixture, 1), normal(4, 8, seed=63), {}),
    "the two best experts": (partial(Mixture, 2), normal(4, 8, seed=63), {}),
    "all experts, open": (partial(Mixture, 8), normal(4, 8, seed=63), {"dynamic": {"x": _BATCH}}),
    "the two best experts, open": (
        *(partial(Mixture, 2), normal(4, 8, seed=63)),
        {"dynamic": {"x": _BATCH}},
    ),
    "residual blocks": (resnet, IMAGE, {}),
    "residual blocks, open": (resnet, IMAGE, {"dynamic": {"input": _BATCH | _WIDE}}),
    "multiples of 4": (Unet, IMAGE, {"dynamic": {"x": _WIDE}}),
    "patches": (partial(Patches, fixed=True), IMAGE, {"dynamic": {"x": _BATCH}}),
    "patches of any size": (partial(Patches, fixed=False), IMAGE, {"dynamic": {"x": _WIDE}}),
    "suppression": (partial(Detector, 4), IMAGE, {}),
    "suppression of boxes far apart": (partial(Detector, 40), IMAGE, {}),
    "peaks": (Peaks, IMAGE, {}),
    "boxes beside scores": (Grid, IMAGE, {"dynamic": {"x": _WIDE}}),
    "a decoder's step": (
        *(Decoder, (torch.tensor([[3], [7]]), normal(2, 5, 16, seed=64))),
        {"dynamic": {"other": {1: ("past", 0, 16)}}},
    ),
    "a GRU's step": (partial(Step, nn.GRUCell), (normal(2, 4), torch.zeros(2, 6)), {}),
    "an RNN's step": (partial(Step, nn.RNNCell), (normal(2, 4), normal(2, 6)), {}),
    "an LSTM's step": (Lstm, (normal(2, 4), torch.zeros(2, 6), torch.zeros(2, 6)), {}),
    "a denoiser": (Diffusion, (IMAGE[..., :8, :8], torch.tensor([999]), torch.tensor([3])), {}),
    "a denoiser, open": (
        *(Diffusion, (IMAGE[..., :8, :8], torch.tensor([999]), torch.tensor([3]))),
        {"dynamic": dict.fromkeys(("x", "other", "third"), _BATCH)},
    ),
    "ids with padding": (Words, torch.tensor([[5, 17, 0, 0], [7, 2, 61, 11]]), {}),
    "ids without padding": (Words, torch.tensor([[5, 17, 9, 4], [7, 2, 61, 11]]), {}),
    "lengths": (Lengths, (normal(3, 7, 4), torch.tensor([7, 7, 7])), {}),
    "lengths, open": (Lengths, (THREE, torch.tensor([7, 7, 7])), OPEN),
    "the best class of frames": (Greedy, normal(2, 6, 4), {"dynamic": {"x": {1: ("time", 1, 40)}}}),
    "a beam's step": (Beam, (normal(3, 4), torch.zeros(3)), {}),
    "an early exit": (Exit, normal(6, 8), {}),
    "codes": (Codes, normal(6, 8), {}),
}


def networks() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield mixtures, detectors, decoders' steps and other small networks."""
    for use, (build, example, options) in NETWORKS.items():
        yield use, partial(_seeded, build, example, options)


#: The kinds of right models, with their makers.
KINDS: dict[str, Callable[[], Iterator[tuple[str, Callable[[], Case]]]]] = {
    "masks in their usual forms": masks,
    "inputs with a structure": structured,
    "coarse arithmetic": rounded,
    "networks that decide": networks,
}


def right_cases_of_kinds() -> Iterator[tuple[str, str, Callable[[], Case]]]:
    """Yield the kind, the name and the builder of each right model."""
    for kind, make in KINDS.items():
        yield from ((kind, name, build) for name, build in make())
