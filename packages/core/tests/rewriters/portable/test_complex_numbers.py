"""Complex numbers on an engine that computes with real numbers only."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable import engine
from packages.core.tests.rewriters.portable.engine import (
    FLOATS,
    SMALL_ENGINE,
    random_indices,
    tensors,
)
from packages.core.tests.rewriting.lowered import lower, targets

from enginebay.errors import LackingOperatorsError

#: An engine that can read the two parts of a complex input, and create no complex number.
REAL = SMALL_ENGINE - {"aten.complex"} | {"aten.atan2", "aten.cumsum"}

check = partial(engine.check, exact=False, operators=REAL)
examples = partial(engine.examples, exact=False, operators=REAL)


def as_real(function):
    """Return the function with its complex results as pairs of real numbers."""

    def run(*tensors):
        results = function(*tensors)
        results = results if isinstance(results, list | tuple) else [results]
        results = [each.resolve_conj() for each in results]
        return [torch.view_as_real(each) if each.is_complex() else each for each in results]

    return run


@st.composite
def complex_tensors(draw, **options):
    """A complex tensor of any strides."""
    real = draw(tensors(**{"ranks": (1, 3), "dtypes": FLOATS} | options))
    imag = draw(tensors(shape=real.shape, dtypes=(real.dtype,)))
    return torch.complex(real, imag)


@pytest.fixture
def z():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 3, 4, dtype=torch.complex64, generator=generator)


@pytest.mark.slow
def test_arithmetic_matches_torch(z):
    real = torch.randn(3, 4)

    @as_real
    def several(z, y):
        return (
            *(z + y, z - y, z * y, z / y, z + 1, 2 - z, z * 3j, 1j * z.real, (1 + 2j) / z, z / 2),
            *(z + real, real - z, z * real, real / y, z / real, z.real + 1j * z.imag.exp()),
            *(torch.add(z, y, alpha=2), torch.sub(z, y, alpha=2), -z, z.reciprocal()),
            *(z**2, z**3, z**-1.5, z**0, z ** (1 + 1j), z.square(), z / (2 - 1j)),
            *(torch.polar(z.real.abs(), z.imag), torch.rsub(z, y)),
        )

    check((several, z, z.flip(0) + 1))


def test_elementwise_functions_match_torch(z):
    sides = torch.tensor([-1.0, 1.0, 1j, -1j, 0.0], dtype=z.dtype)

    @as_real
    def several(z):
        return (
            *(z.abs(), z.angle(), z.conj(), z.sgn(), z.real, z.imag, z.conj_physical(), z.exp()),
            *(z.log(), z.sqrt(), z.to(torch.complex128), z.clone(), z.conj().resolve_conj()),
        )

    @as_real
    def large(z):
        return z.abs(), z.angle(), z.sgn()

    check((several, torch.cat([z.flatten(), sides])), (large, 1e30 * sides))


@pytest.mark.slow
@examples(cases=2)
def test_selection_and_shape_operators_match_torch(draw):
    z = draw(complex_tensors(ranks=(2, 3)))
    dim = draw(st.integers(-z.ndim, z.ndim - 1))
    at = random_indices(draw, (3,), z.shape[dim])
    first = random_indices(draw, (3,), z.shape[0])
    wide = random_indices(draw, z.shape, z.shape[0])
    mask = draw(tensors(shape=z.shape, dtypes=(torch.bool,)))

    @as_real
    def several(z):
        return (
            *(z.reshape(-1), z.transpose(0, dim), z.unsqueeze(dim), z[None].expand(2, *z.shape)),
            *(z.select(dim, 0), z.narrow(dim, 0, 1), z.squeeze(dim), z.flip(dim), z.roll(1, dim)),
            *(z.index_select(dim, at), z[first], z.gather(0, wide), z.repeat(2, *z.shape)),
            *(*z.unbind(dim), *z.split(1, dim), *z.chunk(2, dim), z.diagonal()),
            *(torch.cat([z, z.real], dim), torch.stack([z, z * 2], dim), z.cumsum(dim)),
            *(z.sum(dim), z.sum(), z.mean(dim, keepdim=True), z.unfold(0, 1, 1)),
            *(written(z), z.triu(), z.tril(), torch.full((2,), 1j), torch.zeros(2, dtype=z.dtype)),
            *(torch.where(mask, z, 1j), z.masked_fill(mask, 2)),
            *(torch.nn.functional.pad(z, (1, 2)), torch.nn.functional.pad(z, (1, 0), value=3)),
            *(torch.zeros_like(z), torch.ones_like(z), torch.full_like(z, 1 + 2j)),
        )

    return several, z


def written(z):
    target = torch.zeros_like(z)
    target[..., :1] = z[..., :1]
    target[0] = 1.0
    return target


@pytest.mark.slow
def test_matrix_products_match_torch(z):
    @as_real
    def several(z, y):
        return z @ y, z[0] @ y[0], torch.baddbmm(z @ y, z, y, alpha=2)

    check((several, z, z.mT.contiguous()))


def test_stft_and_istft_match_torch():
    window = torch.hann_window(16)

    def round_trip(x):
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        turned = spectrum * torch.exp(1j * spectrum.abs())
        return torch.istft(turned, 16, 4, window=window, length=80)

    check((round_trip, torch.randn(2, 80)))


def test_error_names_an_operator_of_complex_numbers_without_lowering(z):
    with pytest.raises(LackingOperatorsError, match=r"aten\.tan of complex numbers"):
        check((as_real(torch.tan), z))


def test_real_numbers_are_not_lowered():
    x = torch.ones(2)
    program, report = lower(lambda x: (x * x).exp() + x, (x,), operators=REAL, builtin=True)
    assert targets(program) == ["aten.mul.Tensor", "aten.exp.default", "aten.add.Tensor"]
    assert not [each for each in report.applied if each.kind == "lowering"]
