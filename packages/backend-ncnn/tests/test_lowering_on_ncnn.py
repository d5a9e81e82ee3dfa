"""Operations that pnnx and ncnn cannot do as they are, and do once they are lowered."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError, NotVerifiedError
from enginebay_ncnn import convert, torchscript

if TYPE_CHECKING:
    from collections.abc import Callable


class Apply(nn.Module):
    """A function after a linear layer, as in a model."""

    def __init__(self, function: Callable[..., Any], width: int = 8) -> None:
        super().__init__()
        self.function = function
        self.before = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.before(x)) * 2.0


def windows(x):
    """Cut 4×4 positions into windows of 2×2 and put them together in another order."""
    parts = x.view(1, 2, 2, 2, 2, 8).permute(0, 1, 3, 2, 4, 5)
    attended = parts.reshape(4, 4, 8).softmax(-1)
    return attended.view(1, 2, 2, 2, 2, 8).permute(0, 3, 1, 2, 4, 5).reshape(1, 16, 8)


def causal(x):
    mask = torch.ones(16, 16, dtype=torch.bool).tril()
    scores = x @ x.transpose(1, 2)
    return torch.where(mask, scores, torch.finfo(torch.float32).min).softmax(-1) @ x


def assigned(x):
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    y[:, 0] = 1.0
    return y


def masked(x):
    return x.masked_fill(x > 0.5, -1.0)


def largest(x):
    values, places = x.topk(3, dim=1)
    return values + places


def pooled(x):
    whole = nn.functional.avg_pool2d(x.view(1, 2, 8, 8), 32, 32, ceil_mode=True)
    return x + nn.functional.avg_pool2d(x.view(1, 2, 8, 8), 3, 3, 1, True).sum() + whole.sum()


def padded_with_infinity(x):
    framed = nn.functional.pad(x.view(1, 2, 8, 8), (0, 1, 0, 1), value=-torch.inf)
    return nn.functional.max_pool2d(framed, 3, 2).reshape(1, 4, 8).flip(1)


def put_in(x):
    rows = (x.sum(-1, keepdim=True) > 0).expand_as(x)
    return x.masked_scatter(rows, x.flip(1) * 3.0)


def triangular(x):
    square = (x[:, :8] * 0.1).tril(-1) + torch.eye(8)
    return torch.linalg.solve_triangular(square, x[:, 8:], upper=False)


def norm_without_bias(x):
    windows = x.view(4, 4, 8)
    return nn.functional.layer_norm(windows, (8,), torch.arange(1.0, 9.0)).reshape(1, 16, 8)


def groups_without_bias(x):
    return nn.functional.group_norm(x.cumsum(1), 4, torch.linspace(0.5, 2.0, 16))


OPERATIONS = {
    "pools beyond the edge": pooled,
    "padding with infinity": padded_with_infinity,
    "masked scatter": put_in,
    "triangular system": triangular,
    "norm without a bias": norm_without_bias,
    "group norm without a bias": groups_without_bias,
    "what torch takes apart": lambda x: torch.logaddexp(torch.sinc(x), torch.deg2rad(x)),
    "running maximum": lambda x: x.cummax(1).values,
    "window partition": windows,
    "causal mask": causal,
    "assignment to a slice": assigned,
    "masked fill": masked,
    "top k": largest,
    "slice with a step": lambda x: torch.cat([x[:, ::2], x[:, 1::2]], -1),
    "gather": lambda x: x.gather(2, torch.arange(128).reshape(1, 16, 8).remainder(8)),
    "index by a table": lambda x: x[:, torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])],
    "comparison": lambda x: (x >= 0).to(x.dtype) * x,
    "argmax": lambda x: x.argmax(-1, keepdim=True) + x,
    "6-D transpose": lambda x: x.view(1, 2, 2, 4, 2, 4).transpose(1, 4).reshape(1, 16, 8),
    "unfold": lambda x: x.unfold(1, 4, 2).sum(-1),
    "lower triangle": lambda x: (x @ x.transpose(1, 2)).tril(),
    "logical": lambda x: ((x > 0) & (x < 1) | (x < -1)).float(),
}


@pytest.fixture
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the file as it is."""
    every = convert.iterate_candidates

    def first(*args: Any) -> Any:
        yield next(iter(every(*args)))

    monkeypatch.setattr(convert, "iterate_candidates", first)


@pytest.mark.one_in(8)
@pytest.mark.usefixtures("_bare")
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_unlowered_model_is_refused(deploy, name):
    with pytest.raises(ConversionError):
        deploy(Apply(OPERATIONS[name]), torch.randn(1, 16, 8), export={"ir": "torchscript"})


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.one_in(3)
def test_a_lowered_model_is_verified(deploy, name):
    deployed = deploy(Apply(OPERATIONS[name]), torch.randn(1, 16, 8), export={"ir": "torchscript"})
    assert deployed.verdict == "verified"


def written_out_gelu(x):
    """GPT-2's approximation; of its power pnnx makes the exact GELU, up to 5e-4 away (at ±2.3)."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.fixture
def _powers_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchscript, "replace_overflowing", lambda graph: None)


@pytest.mark.usefixtures("_bare", "_powers_kept")
def test_a_network_that_pnnx_simplifies_too_far_is_a_mismatch(deploy):
    with pytest.raises(NotVerifiedError):
        deploy(Apply(written_out_gelu), 4 * torch.randn(1, 16, 8), export={"ir": "torchscript"})


@pytest.mark.usefixtures("_powers_kept")
def test_the_candidate_with_the_smallest_error_is_used(deploy):
    x = 4 * torch.randn(1, 16, 8)
    deployed = deploy(Apply(written_out_gelu), x, export={"ir": "torchscript"})
    assert deployed.verdict == "verified"


@pytest.mark.usefixtures("_bare")
def test_products_are_not_simplified(deploy):
    x = 4 * torch.randn(1, 16, 8)
    deployed = deploy(Apply(written_out_gelu), x, export={"ir": "torchscript"})
    assert deployed.verdict == "verified"
    assert deployed.verification.outputs[0].max_abs_error < 1e-5


def rows_of_a_slice(x):
    half = x[..., 4:]
    running = half.cummax(1).values  # only a lowering does this
    return running + half * torch.rsqrt((half * half).mean(-1, keepdim=True) + (half + half).abs())


def with_itself(x):
    half = x[..., 4:]
    size = half.abs()
    compared = torch.stack([half == half, half != half, half < half, half >= half]).sum(0)
    angle = torch.atan2(half, half) + half / half + torch.remainder(half, half)
    square = half[:, :4] @ half[:, :4]
    return half * (angle + compared + torch.pow(size, size)) + half.cummax(1).values + square.mean()


@pytest.mark.slow
@pytest.mark.parametrize("function", [rows_of_a_slice, with_itself])
def test_a_tensor_that_one_operator_reads_twice_is_verified(deploy, function):
    deployed = deploy(Apply(function), torch.randn(1, 16, 8), export={"ir": "torchscript"})
    assert deployed.verdict == "verified"


class SameTwice(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + x, x - x, x * x, torch.maximum(x, x), torch.minimum(x, x), x.cummax(1).values


def test_copies_of_repeated_inputs_keep_nan_and_infinities(deploy):
    deployed = deploy(SameTwice(), torch.randn(1, 2, 4), export={"ir": "torchscript"})
    x = torch.tensor([[[math.nan, math.inf, -math.inf, -0.0], [1, 2, 3, 4]]])
    with eb.load(deployed.artifact.path) as wrapper:
        found = wrapper({wrapper.input_names[0]: x.numpy()}).values()
    for each, expected in zip(found, SameTwice()(x), strict=True):
        np.testing.assert_array_equal(each, expected.numpy())


class WithAnchors(nn.Module):
    """One output depends on the input, and one does not."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.cummax(1).values, torch.arange(6.0).reshape(1, 3, 2).expand(x.shape[0], 3, 2)


def test_a_constant_output_is_verified(deploy):
    deployed = deploy(WithAnchors(), torch.randn(1, 16, 8), export={"ir": "torchscript"})
    assert deployed.verdict == "verified"
    wrapper = eb.load(deployed.artifact.path)
    (_, anchors) = wrapper({"x": torch.full((1, 16, 8), math.inf)}).values()
    assert anchors.flatten().tolist() == [0, 1, 2, 3, 4, 5]


class Frames(nn.Module):
    """Sees the pictures of a video one by one, each with a token, as timesformer does."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 4, 2, 2)
        self.token = nn.Parameter(torch.randn(1, 1, 4))

    def forward(self, video: torch.Tensor) -> torch.Tensor:
        batch, frames, *picture = video.shape
        patches = self.patches(video.reshape(batch * frames, *picture)).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(batch * frames, -1, -1), patches], 1).cumsum(1)


def test_a_video_of_five_dimensions_is_verified(deploy):
    assert deploy(Frames(), torch.randn(1, 3, 3, 4, 4)).verdict == "verified"


class Chosen(nn.Module):
    """Gives no number where there was none, and hands its second input on."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shifted = torch.nn.functional.pad(x, (1, 1), mode="reflect")[..., 2:]
        return torch.where(x.isfinite(), shifted, torch.full_like(x, math.nan)), lengths


def test_a_nan_constant_and_a_returned_input_are_verified(deploy):
    deployed = deploy(
        Chosen(), (torch.randn(1, 3, 8), torch.tensor([20, 15])), export={"ir": "torchscript"}
    )
    assert deployed.verdict == "verified"


class TwoStories(nn.Module):
    """Starts recurrent networks with the same zeros, with a batch before them and without."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Conv2d(1, 8, 3, padding=1)
        self.lower = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.between = nn.Linear(16, 8)
        self.upper = nn.LSTM(8, 8, batch_first=True, bidirectional=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        rows = self.image(image).permute(0, 3, 1, 2).mean(3)
        return self.upper(self.between(self.lower(rows)[0]))[0]


@pytest.mark.slow
def test_a_constant_added_with_and_without_a_batch_is_verified(deploy):
    deployed = deploy(TwoStories(), torch.randn(1, 1, 8, 6), export={"ir": "torchscript"})
    assert deployed.verdict == "verified"


class TwoLists(nn.Module):
    """Joins the same tensors twice, along different dimensions."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [x.cumsum(1), x.sign(), x.cos()]
        return torch.cat(parts, 1), torch.cat(parts, 2)


def test_a_list_that_two_operators_read_is_verified(deploy):
    assert (
        deploy(TwoLists(), torch.randn(1, 3, 8), export={"ir": "torchscript"}).verdict == "verified"
    )


class Normalized(nn.Module):
    """Repeats a norm as often as a row is long."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(x.cumsum(2), dim=3).tile(1, 2, 1, 1)


def test_many_repetitions_need_few_layers(deploy):
    deployed = deploy(Normalized(), torch.randn(1, 2, 4, 512), export={"ir": "torchscript"})
    assert deployed.verdict == "verified"
    layers = (deployed.artifact.path / "model.param").read_text().splitlines()[2:]
    assert len(layers) < 20


class Modes(nn.Module):
    """Multiplies each mode around the middle by its own complex matrix, as Fourier operators do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 4, 4, 3, dtype=torch.cfloat))
        self.skip = nn.Conv1d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modes = torch.fft.fftshift(torch.fft.rfft2(x), dim=-2)
        kept = torch.zeros_like(modes)
        kept[..., 2:6, :3] = torch.einsum("bixy,ioxy->boxy", modes[..., 2:6, :3], self.weight)
        mixed = torch.fft.irfft2(torch.fft.fftshift(kept, dim=-2), s=x.shape[-2:])
        return mixed + self.skip(x.flatten(2)).reshape(x.shape)


@pytest.mark.slow
def test_complex_products_of_many_matrices_are_verified(deploy):
    assert (
        deploy(Modes(), torch.randn(1, 4, 8, 8), export={"ir": "torchscript"}).verdict == "verified"
    )
