"""A small engine with few operators, and checks of operators that are lowered for that engine."""

from __future__ import annotations

from functools import partial

import torch
from hypothesis import Phase, given, settings, strategies as st
from packages.core.tests.rewriting.lowered import lower

#: Operators of any engine: arithmetic, comparisons, choices, sums, products of matrices, shapes.
SMALL_ENGINE = frozenset(
    f"aten.{name}"
    for name in (
        *("add", "sub", "mul", "div", "neg", "abs", "pow", "sqrt", "rsqrt", "exp", "log", "floor"),
        *("sin", "cos", "tanh", "sigmoid", "relu", "erf", "clamp", "maximum", "minimum"),
        *("eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or", "where"),
        *("bitwise_and", "bitwise_or", "bitwise_not"),  # of bools
        *("sum", "mean", "amax", "amin", "mm", "bmm", "addmm", "convolution"),
        *("view", "permute", "unsqueeze", "squeeze", "expand", "cat", "slice", "select"),
        *("constant_pad_nd", "clone", "_to_copy", "full", "scalar_tensor"),
        *("complex", "view_as_real"),
    )
)

FLOATS = (torch.float32, torch.float64)
NUMBERS = (*FLOATS, torch.int64)
EVERY = (*NUMBERS, torch.bool)

_SPECIAL = torch.tensor([0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan])


def check(*cases, exact=True, operators=SMALL_ENGINE):
    """Assert that functions return the same if lowered to a small engine's operators.

    All are in one program, since torch takes half a second for each program.

    Args:
        cases: Pairs of a function and the tensors to call it with, which become inputs.
        exact: False if the engine adds in an order that differs from torch.
        operators: The operators of the engine.
    """
    inputs = [tensor for _, *tensors in cases for tensor in tensors]

    def every(*inputs):
        rest = iter(inputs)
        return [_listed(function(*(next(rest) for _ in tensors))) for function, *tensors in cases]

    program, _ = lower(every, tuple(inputs), operators=operators, builtin=True)
    outputs = program.module()(*inputs)
    close = {"atol": 0, "rtol": 0} if exact else {"atol": 2e-5, "rtol": 2e-5}
    for results, expected, (_, *tensors) in zip(outputs, every(*inputs), cases, strict=True):
        for result, value in zip(results, expected, strict=True):
            assert (result.dtype, result.shape) == (value.dtype, value.shape), tensors
            torch.testing.assert_close(
                result,
                value,
                equal_nan=True,
                **close,
                msg=lambda text, given=tensors: f"{text}{given}",
            )
    return program


def _listed(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def examples(case=None, *, cases=5, **options):
    """Make a test from a function that draws a case; several cases run in one program.

    Args:
        case: The function.
        cases: The number of cases in one program.
        options: As for :func:`check`.
    """
    if case is None:
        return partial(examples, cases=cases, **options)

    def run(data):
        check(*(case(data.draw) for _ in range(cases)), **options)

    phases = (Phase.explicit, Phase.reuse, Phase.generate)  # smaller cases are as slow
    few = max(1, settings().max_examples // 25)
    run = settings(max_examples=few, deadline=None, phases=phases)(given(data=st.data())(run))
    run.__doc__ = case.__doc__
    return run


@st.composite
def tensors(draw, *, ranks=(1, 3), sizes=(1, 4), shape=None, dtypes=EVERY, special=False):
    """A tensor with ties, of any strides: contiguous, transposed, with a step, or expanded."""
    if shape is None:
        shape = draw(st.lists(st.integers(*sizes), min_size=ranks[0], max_size=ranks[1]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(dtypes))
    values = torch.randint(-3, 4, tuple(shape), generator=generator).double()
    if dtype.is_floating_point and draw(st.booleans()):
        values = torch.randn(tuple(shape), generator=generator).double()
    if special and dtype.is_floating_point and draw(st.booleans()):
        chosen = torch.randint(len(_SPECIAL), tuple(shape), generator=generator)
        values = torch.where(values > 0.5, _SPECIAL[chosen].double(), values)
    values = values.to(dtype)
    layout = draw(st.sampled_from(["contiguous", "transposed", "stepped", "expanded"]))
    if layout == "transposed" and values.dim() > 1:
        return values.mT.contiguous().mT
    if layout == "stepped" and values.dim():
        return values.repeat_interleave(2, 0)[::2]
    if layout == "expanded" and values.dim() and values.shape[0]:
        return values[:1].expand(values.shape)
    return values


def random_indices(draw, shape, size, *, negative=False):
    """Return random indices into a dimension of this size."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return torch.randint(-size if negative else 0, size, tuple(shape), generator=generator)
