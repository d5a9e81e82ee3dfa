"""Images, Fourier transforms, recurrent networks and writes: each lowering against its operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay_ncnn.dialect.layout import MAX_RANK
from enginebay_ncnn.dialect.operators import OPERATORS
from enginebay_ncnn.dialect.program import DialectModule
from enginebay_ncnn.torchscript_files import silence_warnings

aten = torch.ops.aten


class Apply(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any, part: nn.Module | None = None) -> None:
        super().__init__()
        self.function = function
        self.part = part

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*((self.part,) if self.part else ()), *tensors)


class Given(nn.Module):
    """A function of inputs and of constants."""

    def __init__(self, function: Any, constants: tuple[torch.Tensor, ...]) -> None:
        super().__init__()
        self.function = function
        self.constants = constants

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors, *self.constants)


def check(
    function: Any,
    *inputs: torch.Tensor,
    part: nn.Module | None = None,
    constants: tuple[torch.Tensor, ...] = (),
    varied: bool = True,
) -> None:
    """A function, lowered and written for pnnx, has the function's numbers, for other inputs too.

    Args:
        function: The function.
        inputs: Its inputs.
        part: A module, which is its first argument.
        constants: Its last arguments, which are constants.
        varied: False if it only takes inputs such as these.
    """
    module = Given(function, constants) if constants else Apply(function, part)
    backend = eb.get_backend("ncnn")
    with torch.no_grad(), silence_warnings():
        traced: Any = torch.jit.trace(module.eval(), inputs, check_trace=False)
        frozen = torch.jit.freeze(traced, optimize_numerics=False)
        lower = backend.lowering("torchscript")
        graph = DialectModule(lower(frozen, inputs, OPERATORS))
        others = [
            torch.randn_like(x) if x.is_floating_point() else x.flip(-1).contiguous()
            for x in inputs
        ]
        for tensors in (inputs, others) if varied else (inputs,):
            wanted = module(*(tensor.clone() for tensor in tensors))
            tables = [tensors[place].long() for place in graph.tables]
            found = graph(*(tensor.float() for tensor in tensors), *tables)
            for one, other in zip(
                found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True
            ):
                if other.ndim > MAX_RANK:  # the plan has the shape
                    one = one.reshape(other.shape)
                torch.testing.assert_close(one, other.float(), rtol=1e-3, atol=1e-4)


BATCHES = [1, 3]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("size", [7, 8, 11])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "stride": 3},
        {"kernel_size": 3, "dilation": 2, "padding": 2, "groups": 2},
        {"kernel_size": 4, "stride": 4, "bias": False},
        {"kernel_size": 3, "padding": "same"},
    ],
)
def test_convolutions_of_several_images_match_torch(batch, size, options):
    part = nn.Conv2d(4, 6, **options)
    check(lambda conv, x: conv(x), torch.randn(batch, 4, size, 9), part=part)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(
    ("part", "shape"),
    [
        (nn.Conv1d(4, 6, 3, stride=2, padding=1), (4, 11)),
        (nn.Conv3d(2, 3, 3, padding=1), (2, 4, 5, 6)),
        (nn.ConvTranspose2d(4, 2, 3, stride=2), (4, 5, 6)),
        (nn.BatchNorm1d(4).eval(), (4, 7)),
        (nn.BatchNorm1d(4).eval(), (4,)),
        (nn.BatchNorm2d(4).eval(), (4, 5, 6)),
        (nn.GroupNorm(2, 4), (4, 5, 6)),
        (nn.GroupNorm(2, 4), (4, 7)),
        (nn.InstanceNorm2d(4, affine=True), (4, 5, 6)),
        (nn.InstanceNorm1d(4), (4, 7)),
        (nn.PReLU(4), (4, 5, 6)),
        (nn.MaxPool2d(2), (4, 5, 6)),
        (nn.AvgPool1d(2), (4, 7)),
        (nn.AdaptiveAvgPool2d((2, 3)), (4, 5, 7)),
        (nn.AdaptiveMaxPool2d(2), (4, 5, 7)),
        (nn.Upsample(scale_factor=2), (4, 5, 6)),
        (nn.Upsample(size=(7, 9), mode="bilinear"), (4, 5, 6)),
        (nn.PixelShuffle(2), (4, 5, 6)),
        (nn.PixelUnshuffle(2), (4, 6, 8)),
        (nn.GLU(1), (4, 5)),
        (nn.ConstantPad3d((1, 2, 0, 1, 2, 0), 1.5), (2, 3, 4, 5)),
        (nn.ReflectionPad2d(2), (4, 5, 6)),
        (nn.CircularPad2d(2), (4, 5, 6)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(len(value)),
)
def test_modules_on_images_and_signals_match_torch(batch, part, shape):
    check(lambda module, x: module(x), torch.randn(batch, *shape), part=part)


def test_a_convolution_of_an_image_without_a_batch_matches_torch():
    check(lambda conv, x: conv(x), torch.randn(4, 6, 7), part=nn.Conv2d(4, 2, 3))


def test_grid_samples_of_several_images_match_torch():
    def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(x, grid, align_corners=False)

    check(sample, torch.randn(2, 3, 5, 5), torch.rand(2, 4, 3, 2))


def low_frequencies(x):
    spectrum = torch.fft.rfft(x)
    kept = torch.zeros_like(spectrum)
    kept[..., :2] = spectrum[..., :2]
    kept[:, 0] = 1.0
    return torch.fft.irfft(kept)


FOURIER = {
    "fft, real part": lambda x: torch.fft.fft(x).real,
    "fft2 and back": lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real,
    "fftn of two dimensions": lambda x: torch.fft.fftn(x, dim=(1, 2)).imag,
    "rfft, magnitude": lambda x: torch.fft.rfft(x, norm="ortho").abs(),
    "rfft, cut": lambda x: torch.fft.rfft(x, n=4, dim=1).abs(),
    "rfft, filled up": lambda x: torch.fft.rfft(x, n=12).abs(),
    "rfft and irfft, odd": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=5, dim=1),
    "a filter": lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * (0.5 + 2j), s=(5, 6)),
    "correlation": lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.conj(torch.fft.rfft(x))),
    "windows of a signal": lambda x: torch.stft(
        x[0], 4, 2, window=torch.ones(4), return_complex=True
    ).abs(),
    "product of spectra": lambda x: (
        (
            torch.einsum("bij,bkj->bik", torch.fft.fft(x), x + 2j) @ torch.fft.fft(x, norm="ortho")
        ).real
    ),
    "low frequencies alone": low_frequencies,
    "as pairs": lambda x: torch.view_as_real(torch.fft.rfft(x) + 1),
    "turned": lambda x: torch.view_as_real(
        torch.view_as_complex(x.reshape(2, 5, 3, 2)) * torch.polar(torch.ones(3), torch.arange(3.0))
    ).flatten(2),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_the_operators_of_decomposed_transforms_match_torch(normalization):
    check(lambda x: aten._fft_r2c(x, [1, 2], normalization, True).imag, torch.randn(2, 5, 6))
    check(lambda x: aten._fft_r2c(x, [1], normalization, False).real, torch.randn(2, 5, 6))
    for forward in (True, False):
        check(
            lambda x, forward=forward: (
                aten._fft_c2c(torch.complex(x, x * 2.0), [1, 2], normalization, forward).real
            ),
            torch.randn(2, 5, 6),
        )
    check(
        lambda x: aten._fft_c2r(torch.fft.rfft2(x), [1, 2], normalization, 7),
        torch.randn(2, 5, 7),
    )


@pytest.mark.parametrize("name", FOURIER)
def test_fourier_transforms_match_torch(name):
    check(FOURIER[name], torch.randn(2, 5, 6))


def test_unsupported_operators_of_complex_numbers_are_refused():
    with pytest.raises(ConversionError, match=r"aten\.tan of complex numbers"):
        check(lambda x: torch.fft.fft(x).tan().real, torch.randn(2, 4))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2, "bias": False}])
def test_recurrent_networks_match_torch(kind, options):
    part = kind(4, 3, batch_first=True, **options)

    def run(module: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs, last = module(x)
        return outputs, *(last if isinstance(last, tuple) else (last,))

    check(run, torch.randn(2, 5, 4), part=part)


def transposed(x):
    y = torch.zeros(2, 6, 5)
    y.transpose(1, 2)[:, :2] = x[:, :2]
    return y


def unbound(x):
    y = torch.ones_like(x)
    first, second = y.unbind(0)
    second.copy_(first + x[0])
    return y


def seen_through_another_piece(x):
    y = torch.zeros_like(x)
    turned = y.permute(2, 0, 1)
    y[:, 0] = x[:, 1]
    return turned * 2


def added_in_place(x):
    y = x * 2
    y[..., :2] += 1
    y[..., :2] *= x[..., :2]
    return y


def part_of_a_chunk(x):
    y = torch.zeros_like(x)
    y.chunk(2, -1)[1].fill_(3.0)
    y.split([1, 4], 1)[1].narrow(2, 1, 2).copy_(x[:, 1:, :2])
    return y


def part_of_what_is_split(x):
    y = x * 2.0
    y.unsafe_chunk(2, -1)[1].mul_(3.0)
    y.unsafe_split(2, 1)[1].add_(x[:, :2])
    return y


def copied_by_a_reshape(x):
    y = torch.zeros(2, 6, 5)
    apart = y.transpose(1, 2).reshape(-1)
    apart[:3] = x[0, 0, :3]
    return y.sum() + apart


def positions(x):
    y = torch.zeros_like(x)
    y[:, torch.tensor([3, 1]), torch.tensor([0, 5])] = x[:, :2, 2]
    return y


WRITES = [
    *(transposed, unbound, seen_through_another_piece, added_in_place),
    *(part_of_a_chunk, part_of_what_is_split, copied_by_a_reshape, positions),
]


@pytest.mark.parametrize("function", WRITES, ids=lambda function: function.__name__)
def test_assignments_change_all_views_of_the_memory(function):
    check(function, torch.randn(2, 5, 6))


def test_assignments_by_a_mask_match_torch():
    x, keep = torch.randn(2, 5), torch.randint(0, 2, (2, 5))
    check(lambda x, keep: x.index_put((keep > 0,), torch.tensor(2.0)), x, keep)


@pytest.mark.parametrize("live", [False, True])
def test_scatters_match_torch(live):
    x, src = torch.randn(3, 6), torch.randn(3, 4)
    index = torch.stack([torch.randperm(6)[:4] for _ in range(3)])

    def scatters(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, src, index = given
        return x.scatter(1, index, src), x.scatter(1, index, 2.5), x.scatter_add(1, index, src)

    if live:
        check(scatters, x, src, index)
    else:
        check(scatters, x, src, constants=(index,))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_scatters_with_a_reduction_match_torch(reduce, include_self):
    x, src = torch.randn(3, 4), torch.randn(3, 7)
    index = torch.randint(0, 4, (3, 7))
    check(
        lambda x, src, index: x.scatter_reduce(1, index, src, reduce, include_self=include_self),
        *(x, src, index),
    )


def test_index_assignments_along_one_dimension_match_torch():
    x, src, index = torch.randn(4, 5), torch.randn(2, 5), torch.tensor([2, 0])

    def writes(x: torch.Tensor, src: torch.Tensor, index: torch.Tensor) -> tuple[Any, ...]:
        filled = x.index_fill(1, index, 3.0)
        return x.index_add(0, index, src), x.index_copy(0, index, src), filled

    check(writes, x, src, index)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_matches_torch(right):
    edges, x = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([[-1.0, 0.0, 0.5, 2.0, 3.0]])

    def places(x: torch.Tensor, edges: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.bucketize(x, edges, right=right), torch.searchsorted(edges, x, right=right)

    check(places, x, constants=(edges,))


def test_histograms_and_counts_match_torch():
    x = torch.tensor([0.0, 1.0, 1.0, 3.0])
    check(lambda x: torch.histc(x, 4, 0, 3), x)
    check(lambda x: functional.one_hot(x, 4).sum(0), x.long())


@pytest.mark.parametrize("live", [False, True])
def test_grouped_products_match_torch(live):
    a, b = torch.randint(-3, 4, (8, 8)).float(), torch.randint(-3, 4, (3, 8, 16)).float()
    ends = torch.tensor([2, 2, 8])

    def products(a: torch.Tensor, ends: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        # All numbers are whole, and exact in this dtype, for which alone torch has the operator.
        return aten._grouped_mm(a.bfloat16(), b.bfloat16(), ends.int()).float()

    if live:
        check(products, a, ends, constants=(b,), varied=False)
    else:
        check(products, a, constants=(ends, b), varied=False)


@pytest.mark.parametrize("divisor", [3, -7])
def test_integers_are_divided_exactly(divisor):
    def divided(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.full_like(x, divisor)
        every = [(x // each, x % each, x.fmod(each)) for each in (y, divisor)]
        return tuple(found for each in every for found in each)

    check(divided, torch.arange(-50, 50))


def test_as_strided_uses_the_strides_of_its_own_tensor():
    check(lambda x: x.transpose(0, 1).as_strided((4, 3), (2, 1), 1), torch.randn(4, 5))
    with pytest.raises(ConversionError, match="outside of its input tensor"):
        check(lambda x: x[1:].as_strided((3,), (1,), 0), torch.randn(4, 5))


def test_einsum_with_an_ellipsis_matches_torch():
    a, b = torch.randn(1, 2, 3, 4, 5), torch.randn(1, 2, 6, 4, 5)
    check(lambda a, b: torch.einsum("...qhd,...khd->...hqk", a, b), a, b)


OTHERS = {
    "distances": lambda x: torch.cdist(x, x[:, :3] + 1.0),
    "grids": lambda x: functional.affine_grid(x[:, :2, :3], (2, 3, 4, 5), align_corners=False),
    "grids to the corners": lambda x: functional.affine_grid(
        x[:, :2, :3], (2, 3, 4, 5), align_corners=True
    ),
    "products": lambda x: x.prod(1) + x.cumprod(-1)[:, 0],
    "broadcast": lambda x: torch.broadcast_tensors(x[:, :1], x)[0] * 2,
    "outer": lambda x: torch.outer(x[0, 0], x[1, 0]),
    "the logarithm of zero as a place": lambda x: torch.where(
        x > 9, (x * 0).log().long(), (x > 0).long()
    ).float(),
    "five dimensions": lambda x: x.reshape(2, 5, 1, 3, 2).softmax(-1).logsumexp(-1).std(1),
    "pools without a stride": lambda x: functional.max_pool3d(x.reshape(1, 2, 5, 3, 2), 2),
}


@pytest.mark.parametrize("name", OTHERS)
def test_composed_operators_match_torch(name):
    check(OTHERS[name], torch.randn(2, 5, 6))


def turning(x: torch.Tensor, turn: bool):
    if turn:
        return x * 2
    return x.transpose(1, 2)


def looking(x: torch.Tensor):
    if bool(x.sum() > 0):
        x = -x
    return x


@pytest.mark.parametrize("turn", [True, False])
def test_a_constant_branch_is_followed(turn):
    with silence_warnings():
        scripted = torch.jit.script(turning)
    check(lambda x: scripted(x, turn) + 1, torch.randn(2, 5, 6))


def test_a_branch_that_depends_on_the_inputs_is_refused():
    with silence_warnings():
        scripted = torch.jit.script(looking)
    with pytest.raises(ConversionError, match="depends on the inputs"):
        check(lambda x: scripted(x) + 1, torch.randn(2, 5, 6))


def test_a_scatter_into_infinities_matches_torch():
    index, table = torch.tensor([[1], [0]]), torch.full((2, 3), -torch.inf)
    check(
        lambda index, table: table.scatter(1, index, torch.ones(2, 1)).clamp(-2),
        index,
        constants=(table,),
    )


def test_a_scatter_of_infinity_matches_torch():
    index = torch.tensor([[1], [0]])
    check(lambda index: torch.ones(2, 3).scatter(1, index, -torch.inf).clamp(-2), index)
