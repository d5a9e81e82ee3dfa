"""The replacements of an operator compute its numbers for all shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings, strategies as st
from torch.utils import _pytree as pytree

import enginebay as eb
from enginebay_ncnn.dialect import operators
from enginebay_ncnn.dialect.layout import MAX_RANK
from enginebay_ncnn.dialect.operators import OPERATORS, write_operator
from enginebay_ncnn.dialect.program import DialectModule
from enginebay_ncnn.dialect.values import Blob
from enginebay_ncnn.torchscript_files import silence_warnings

aten = torch.ops.aten

#: For what takes a whole lowering for each example.
few = settings(max_examples=6)

sizes = st.integers(1, 4)
shapes = st.lists(sizes, min_size=1, max_size=6).map(tuple)


def numbers(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape)


def whole(shape: tuple[int, ...], low: int = -3, high: int = 4) -> torch.Tensor:
    return torch.randint(low, high, shape)


def truths(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.rand(shape) < 0.5


@dataclass
class Constant:
    """A tensor that depends on no input."""

    tensor: torch.Tensor


def as_value(value: Any) -> Any:
    """Return the value as operators receive it: only constant tensors depend on no input."""
    if isinstance(value, Constant):
        return value.tensor
    return Blob(value.float(), None, value.dtype) if isinstance(value, torch.Tensor) else value


def written(name: str, *args: Any, **kwargs: Any) -> Any:
    """Write one operator for pnnx, and return its numbers."""
    assert f"aten.{name}" in OPERATORS
    given = pytree.tree_map(as_value, list(args))
    found = write_operator(name, getattr(aten, name), given, kwargs)
    return pytree.tree_map(lambda each: each.tensor if isinstance(each, Blob) else each, found)


class Apply(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def check_lowered(function: Any, *inputs: torch.Tensor, **tolerance: float) -> None:
    """A function, lowered and written for pnnx, has the function's numbers."""
    backend = eb.get_backend("ncnn")
    with torch.no_grad(), silence_warnings():
        lower = backend.lowering("torchscript")
        graph = DialectModule(lower(Apply(function), inputs, OPERATORS))
        tables = [inputs[place].long() for place in graph.tables]
        found = graph(*(tensor.float() for tensor in inputs), *tables)
    wanted = function(*inputs)
    wanted = tuple(wanted) if isinstance(wanted, list | tuple) else (wanted,)
    found = [  # of more dimensions, the plan has the shape
        one.reshape(other.shape) if other.ndim > MAX_RANK else one
        for one, other in zip(found, wanted, strict=True)
    ]
    check(found, wanted, **({"rtol": 1e-4, "atol": 1e-5} | tolerance))


@st.composite
def broadcasting(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = draw(shapes)
    other = tuple(n if draw(st.booleans()) else 1 for n in shape)[draw(st.integers(0, 2)) :]
    return (shape, other) if draw(st.booleans()) else (other or (1,), shape)


def check(found: Any, wanted: Any, **tolerance: float) -> None:
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            check(one, other, **tolerance)
        return
    assert tuple(found.shape) == tuple(wanted.shape)
    torch.testing.assert_close(found.float(), wanted.float(), **tolerance)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum", "atan2"])
@given(both=broadcasting())
def test_arithmetic_broadcasts_at_any_rank(name, both):
    a, b = map(numbers, both)
    check(written(name, a, b), getattr(aten, name)(a, b))


@given(both=broadcasting())
def test_powers_by_tensors_match_torch(both):
    a, b = map(numbers, both)
    check(written("pow", a.abs(), b), a.abs() ** b)
    check(written("pow", a.abs(), Constant(b)), a.abs() ** b)
    check(written("pow", a, Constant(torch.tensor(2.0))), a**2)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "gt", "le", "ge"])
@given(both=broadcasting())
def test_comparisons_are_zeros_and_ones(name, both):
    a, b = map(whole, both)
    check(written(name, a, b), getattr(aten, name)(a, b))


@pytest.mark.parametrize("name", ["lt", "gt", "eq"])
def test_comparisons_see_the_smallest_difference(name):
    a = torch.tensor([1.0, 1e-30, -1e-38, 3e38])
    b = torch.nextafter(a, torch.tensor(math.inf))
    check(written(name, a, b), getattr(aten, name)(a, b))


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
@given(both=broadcasting())
def test_divisions_match_torch(mode, both):
    a, b = whole(both[0], -20, 21), whole(both[1], 1, 5)
    wanted = torch.div(a, b, rounding_mode=mode)
    check(written("div", a, b, rounding_mode=mode), wanted)


@few
@given(both=broadcasting())
def test_remainders_match_torch(both):
    a, b = whole(both[0], -20, 21), whole(both[1], 1, 5)
    check_lowered(lambda a, b: (a % b, a.fmod(b), a // b), a, b)


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_rounded_divisions_match_torch(mode):
    a, b = torch.tensor([7.0, -7.0, 6.0]), torch.tensor([2.0, 2.0, -4.0])
    check(written("div", a, b, rounding_mode=mode), torch.div(a, b, rounding_mode=mode))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@given(both=broadcasting())
def test_logical_operators_match_torch(name, both):
    a, b = map(truths, both)
    check(written(name, a, b), getattr(aten, name)(a, b))
    check(written("logical_not", a), a.logical_not())


@given(both=broadcasting())
def test_where_returns_both_values_unrounded(both):
    condition, a = truths(both[0]), numbers(both[1]) * 1e20
    b = numbers(both[0])
    found = written("where", condition, a, b)
    assert torch.equal(found, torch.where(condition.bool(), a, b))


@pytest.mark.parametrize("value", [-math.inf, torch.finfo(torch.float32).min, 3.5])
def test_a_mask_filled_with_the_lowest_number_matches_torch(value):
    x, mask = torch.randn(2, 3, 4), torch.rand(2, 1, 4) < 0.5
    mask[..., 0] = False
    found = written("where", mask, value, x)
    check(found.softmax(-1), x.masked_fill(mask, value).softmax(-1))


@given(shape=shapes, data=st.data())
def test_permutations_of_any_rank_match_torch(shape, data):
    x = numbers(shape)
    order = data.draw(st.permutations(range(len(shape))))
    assert torch.equal(written("permute", x, order), x.permute(order))


@given(both=broadcasting())
def test_copies_broadcast(both):
    x, src = numbers(torch.broadcast_shapes(*both)), numbers(both[1])
    check(written("copy", x, src), aten.copy(x, src), rtol=0, atol=0)


@few
@given(shape=shapes, data=st.data())
def test_assignments_to_slices_with_steps_match_torch(shape, data):
    x = numbers(shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    start, end = (data.draw(st.none() | st.integers(-5, 5)) for _ in range(2))
    where = (dim, start, end, data.draw(st.integers(1, 3)))
    src = numbers(aten.slice(x, *where).shape)
    assume(src.numel())
    check_lowered(lambda x, src: x.slice_scatter(src, *where), x, src, rtol=0, atol=0)


@given(shape=shapes, data=st.data())
def test_slices_with_steps_match_torch(shape, data):
    x = numbers(shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    start, end = (data.draw(st.none() | st.integers(-5, 5)) for _ in range(2))
    step = data.draw(st.integers(1, 3))
    wanted = aten.slice(x, dim, start, end, step)
    assume(wanted.numel())
    assert torch.equal(written("slice", x, dim, start, end, step), wanted)


def test_an_empty_slice_is_left_out_of_a_concatenation():
    x = torch.ones(3, 2)
    empty = written("slice", x, 0, 2, 2)
    assert empty.shape == (0, 2)
    assert torch.equal(written("cat", [x, empty]), x)


@given(shape=shapes, data=st.data())
def test_splits_and_concatenations_match_torch(shape, data):
    x = numbers(shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    index = data.draw(st.integers(-shape[dim], shape[dim] - 1))
    parts = data.draw(st.integers(1, 3))
    assert torch.equal(written("select", x, dim, index), x.select(dim, index))
    check(written("split", x, parts, dim), list(x.split(parts, dim)), rtol=0, atol=0)
    check(written("unbind", x, dim), list(x.unbind(dim)), rtol=0, atol=0)
    assert torch.equal(written("cat", [x, x * 2], dim), torch.cat([x, x * 2], dim))
    assert torch.equal(written("stack", [x, x * 2], dim), torch.stack([x, x * 2], dim))
    counts = [data.draw(st.integers(1, 2)) for _ in shape]
    assert torch.equal(written("repeat", x, [2, *counts]), x.repeat(2, *counts))


@given(shape=shapes, data=st.data())
def test_reductions_of_any_rank_match_torch(shape, data):
    x = numbers(shape)
    dims = data.draw(
        st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True)
    )
    keep = data.draw(st.booleans())
    for name in ("sum", "mean", "amax", "amin"):
        check(written(name, x, dims, keep), getattr(torch, name)(x, dims, keep))
    for p in (1, 2, 3, math.inf):
        wanted = torch.linalg.vector_norm(x, p, dims, keep)
        check(written("linalg_vector_norm", x, p, dims, keep), wanted, rtol=1e-4, atol=1e-5)
    check(
        written("var", x, dims, correction=0, keepdim=keep),
        x.var(dims, correction=0, keepdim=keep),
    )


@few
@given(shape=shapes, data=st.data())
def test_composed_splits_match_torch(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = data.draw(st.integers(1, 3))
    check_lowered(
        lambda x: (
            *x.chunk(parts, dim),
            *x.tensor_split(shape[dim], dim),
            x.repeat_interleave(2, dim),
            x.roll(parts, dim),
        ),
        numbers(shape),
        rtol=0,
        atol=0,
    )


@pytest.mark.slow
@few
@given(shape=shapes, data=st.data())
def test_sorts_and_extremes_match_torch(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    keep = data.draw(st.booleans())
    k = data.draw(st.integers(1, shape[dim]))
    check_lowered(
        lambda x: (
            x.argmax(dim, keep),
            x.argmin(dim, keep),
            *x.sort(dim=dim, descending=True, stable=True),
            *x.sort(dim=dim, descending=False, stable=True),
            x.topk(k, dim).values,
        ),
        whole(shape).float(),
    )


@given(shape=shapes, data=st.data(), live=st.booleans())
def test_indexing_matches_torch(shape, data, live):
    x = numbers(shape)
    dim = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.integers(1, 5))
    index = torch.randint(0, shape[dim], (count,))
    given_index = index if live else Constant(index)
    check(written("index_select", x, dim, given_index), x.index_select(dim, index))
    places = torch.randint(0, shape[dim], shape)
    given_places = places if live else Constant(places)
    check(written("gather", x, dim, given_places), x.gather(dim, places))
    from_end = index - shape[dim] if data.draw(st.booleans()) else -1 - index
    given_index, whole = from_end if live else Constant(from_end), [None] * dim
    check(written("index", x, [*whole, given_index]), x[(*[slice(None)] * dim, from_end)])


@given(shape=st.lists(sizes, min_size=2, max_size=4).map(tuple), live=st.booleans())
def test_several_indices_at_once_match_torch(shape, live):
    x = numbers(shape)
    rows = torch.randint(-shape[0], shape[0], (3, 1))
    columns = torch.randint(-shape[-1], shape[-1], (2,))
    used = [rows, columns] if live else [Constant(rows), Constant(columns)]
    middle = [None] * (len(shape) - 2)
    wanted = x[(rows, *[slice(None)] * len(middle), columns)]
    check(written("index", x, [used[0], *middle, used[1]]), wanted)


@given(batch=shapes, n=sizes, k=sizes, m=sizes, data=st.data())
def test_matrix_products_of_any_rank_match_torch(batch, n, k, m, data):
    batch = batch[:4]
    left = tuple(size if data.draw(st.booleans()) else 1 for size in batch)
    a, b = numbers((*left, n, k)), numbers((*batch, k, m))
    check(written("matmul", a, b), a @ b, rtol=1e-4, atol=1e-5)
    check(written("matmul", a, b[(0,) * len(batch)][:, 0]), a @ b[(0,) * len(batch)][:, 0])
    weight = numbers((m, k))
    check(written("linear", a, Constant(weight)), aten.linear(a, weight), rtol=1e-4, atol=1e-5)
    row = numbers((k,))
    check(written("linear", a, Constant(row)), aten.linear(a, row), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhwc,hkc->bhwk", [(1, 3, 4, 5), (3, 2, 5)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ij->ji", [(3, 4)]),
        ("ijk->i", [(3, 4, 2)]),
        ("bld,bmd,m->bl", [(2, 3, 4), (2, 5, 4), (5,)]),
        ("ij,ij", [(3, 4), (3, 4)]),
    ],
)
def test_einsum_matches_torch(equation, shapes):
    operands = [torch.randn(shape) for shape in shapes]
    check_lowered(lambda *operands: torch.einsum(equation, *operands), *operands)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
@pytest.mark.parametrize("mask", [None, "bool", "float"])
def test_attention_matches_torch(options, mask):
    if mask and options.get("is_causal"):
        pytest.skip("torch refuses both")
    query, key, value = (torch.randn(1, 4, 5, 8) for _ in range(3))
    given_mask = {None: None, "bool": torch.rand(5, 5) < 0.7, "float": torch.randn(5, 5)}[mask]
    if mask == "bool":
        given_mask[:, 0] = True
        given_mask[2] = False  # this row sees nothing
    wanted = aten.scaled_dot_product_attention(query, key, value, given_mask, **options)
    found = written("scaled_dot_product_attention", query, key, value, given_mask, **options)
    check(found, wanted, rtol=1e-4, atol=1e-5)


def test_attention_with_grouped_queries_matches_torch():
    query, key = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)
    wanted = aten.scaled_dot_product_attention(query, key, key, enable_gqa=True)
    found = written("scaled_dot_product_attention", query, key, key, enable_gqa=True)
    check(found, wanted, rtol=1e-4, atol=1e-5)


@given(shape=shapes, data=st.data())
def test_normalisations_match_torch(shape, data):
    x = numbers(shape)
    kept = shape[data.draw(st.integers(0, len(shape) - 1)) :]
    weight, bias = numbers(kept), numbers(kept)
    fixed = Constant(weight), Constant(bias)
    found = written("layer_norm", x, kept, *fixed, 1e-5)
    check(found, aten.layer_norm(x, kept, weight, bias, 1e-5), rtol=1e-3, atol=1e-4)
    check(written("softmax", x, -1), x.softmax(-1))
    check(written("cumsum", x, 0), x.cumsum(0), rtol=1e-4, atol=1e-5)


@few
@given(shape=shapes, data=st.data())
def test_unfold_matches_torch(shape, data):
    x = numbers(shape)
    dim = data.draw(st.integers(0, len(shape) - 1))
    size = data.draw(st.integers(1, shape[dim]))
    step = data.draw(st.integers(1, 3))
    check_lowered(lambda x: x.unfold(dim, size, step), x, rtol=0, atol=0)


def test_torch_has_every_listed_operator():
    unknown = [name for name in OPERATORS if not hasattr(aten, name.removeprefix("aten."))]
    assert unknown == []


def test_no_operator_has_two_writers():
    rooms = [module.WRITERS for module in vars(operators).values() if hasattr(module, "WRITERS")]
    groups = (operators.UNARY, operators.CHANNELWISE, operators.POOLS, operators.LAYERS)
    names = [name for group in (*groups, operators.CONSTANTS, *rooms) for name in group]
    assert len(rooms) == 8
    assert sorted(names) == sorted(name.removeprefix("aten.") for name in OPERATORS)


@few
@given(both=broadcasting())
def test_functions_of_two_tensors_match_torch(both):
    a, b = map(numbers, both)
    check_lowered(lambda a, b: (torch.hypot(a, b), torch.copysign(a, b)), a, b)


@few
@given(shape=shapes, data=st.data())
def test_composed_norms_match_torch(shape, data):
    x = numbers(shape)
    kept = shape[data.draw(st.integers(0, len(shape) - 1)) :]
    weight = numbers(kept)
    check_lowered(
        lambda x: (aten.rms_norm(x, kept, weight), x.logsumexp(-1), x.log_softmax(-1)),
        x,
        rtol=1e-3,
        atol=1e-4,
    )


@few
@given(shape=shapes)
def test_elementwise_functions_match_torch(shape):
    x = numbers(shape)
    check_lowered(lambda x: (x.exp2(), torch.erfc(x), x.signbit()), x, atol=1e-6, rtol=1e-5)


@few
@given(shape=shapes, dim=st.integers(-1, 0))
def test_running_extremes_and_flips_match_torch(shape, dim):
    check_lowered(
        lambda x: (x.flip(dim), *torch.cummax(x, dim), *torch.cummin(x, dim)), whole(shape).float()
    )


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
def test_triangular_systems_match_torch(upper, left, unitriangular):
    a = numbers((2, 1, 4, 4)) + 4 * torch.eye(4)
    b = numbers((3, 4, 5) if left else (3, 5, 4))
    flags = {"upper": upper, "left": left, "unitriangular": unitriangular}
    a = a.triu() if upper else a.tril()
    check_lowered(
        lambda a, b: torch.linalg.solve_triangular(a, b, **flags), a, b, atol=1e-3, rtol=1e-3
    )


@pytest.mark.parametrize("wide", [False, True])
def test_masked_scatter_reads_the_source_in_order(wide):
    x, source, mask = numbers((2, 5, 3)), numbers((2, 6, 3)), truths((2, 5, 1))
    check_lowered(
        lambda x, mask, source: x.masked_scatter(mask.expand(2, 5, 3) if wide else mask, source),
        *(x, mask, source),
    )


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize(
    "arguments",
    [
        (3, 2, 1, True, False),
        (3, 2, 1, True, True),
        (3, 1, 1, False, False),
        (16, 16, 0, True),
        (2, 2, 0, False, True, 3),
    ],
    ids=str,
)
def test_average_pools_at_the_edge_match_torch(images, arguments):
    x = numbers((images, 2, 8, 6))
    kernel, stride, padding, *rest = arguments
    lists = ([kernel] * 2, [stride] * 2, [padding] * 2, *rest)
    check(written("avg_pool2d", x, *lists), aten.avg_pool2d(x, *lists))


@pytest.mark.parametrize("arguments", [(3, 2, 1, 1, True), (2, 1, 0, 2), (16, 16, 0, 1, True)])
def test_maximum_pools_at_the_edge_match_torch(arguments):
    x = numbers((2, 3, 8, 6))
    kernel, stride, padding, dilation, *rest = arguments
    lists = ([kernel] * 2, [stride] * 2, [padding] * 2, [dilation] * 2, *rest)
    check(written("max_pool2d", x, *lists), aten.max_pool2d(x, *lists))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@given(shape=shapes)
def test_extremes_with_a_scalar_tensor_match_torch(name, shape):
    x, bound = numbers(shape), torch.tensor(0.25)
    check(written(name, x, Constant(bound)), getattr(aten, name)(x, bound))
