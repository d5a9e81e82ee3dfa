from __future__ import annotations

import pytest
import torch
from packages.core.tests.rewriting.lowered import Net, declared, lower, targets

from enginebay.errors import ConversionError, RewriterError
from enginebay.rewriting import RewriterSet

X = torch.rand(2, 3)


def refused(function, name, replacement, **options):
    with pytest.raises(RewriterError) as caught:
        lower(function, (X,), declared(name, replacement), **options)
    subject = f'the lowering {replacement.__module__}.{replacement.__qualname__} of "{name}" '
    assert str(caught.value).startswith(subject)
    return str(caught.value).removeprefix(subject), caught.value.hint


def linear(x):
    return torch.nn.functional.linear(x, torch.ones(4, 3)) + x.sum()


def largest(x):
    return torch.max(x, 1)


@pytest.mark.parametrize(
    ("function", "name", "replacement", "message"),
    [
        (
            torch.relu,
            "aten.relu",
            lambda ctx, x: x.double(),
            "returns torch.float64, expected torch.float32 like the operator",
        ),
        (
            largest,
            "aten.max.dim",
            lambda ctx, x, dim: (x.amax(dim), x.argmax(dim).int()),
            "returns torch.int32 as output 1, expected torch.int64 like the operator",
        ),
        (
            torch.relu,
            "aten.relu",
            lambda ctx, x: x[:1],
            "returns the shape [1, 3], expected [2, 3] like the operator",
        ),
        (
            largest,
            "aten.max.dim",
            lambda ctx, x, dim: x.amax(dim),
            "returns one result, expected 2 results like the operator",
        ),
        (
            torch.relu,
            "aten.relu",
            lambda ctx, x: (x, x),
            "returns 2 results, expected one result like the operator",
        ),
        (torch.relu, "aten.relu", lambda ctx, x: None, "returns a NoneType, expected a tensor"),
        (
            linear,
            "aten.linear",
            lambda ctx, x, weight, bias=None: x,
            "returns the shape [2, 3], expected [2, 4] like the operator",
        ),
        (
            torch.relu,
            "aten.relu",
            lambda ctx: None,
            "failed: TypeError: <lambda>() takes 1 positional argument but 2 were given",
        ),
    ],
)
def test_lowering_must_return_the_operators_dtypes_and_shapes(function, name, replacement, message):
    assert refused(function, name, replacement) == (message, None)


def test_lowering_must_not_fix_a_dynamic_size():
    dynamic = ({0: torch.export.Dim("batch", min=2)},)
    with pytest.raises(
        RewriterError, match=r"returns the shape \[2, 3\], expected \[s\d+, 3\] like"
    ):
        lower(
            torch.relu,
            (X,),
            declared("aten.relu", lambda ctx, x: torch.zeros(2, 3)),
            dynamic=dynamic,
        )


@pytest.mark.parametrize(
    ("function", "name", "replacement"),
    [
        (torch.relu, "aten.relu", lambda ctx, x: x.clamp_(min=0)),
        (torch.relu, "aten.relu", lambda ctx, x: torch.relu_(x.clone())),
        (linear, "aten.linear", lambda ctx, x, weight: x.mul_(1) @ weight.T),
    ],
)
def test_lowering_must_not_write_to_its_arguments(function, name, replacement):
    assert refused(function, name, replacement) == (
        "changes a tensor in place",
        "return a new tensor",
    )


@pytest.mark.parametrize(
    "sets",
    [
        [declared("aten.relu", lambda ctx, x: torch.relu(x) + 0)],
        [
            declared("aten.relu", lambda ctx, x: x.clamp(min=0)),
            declared("aten.clamp", lambda ctx, x, *limits: torch.relu(x)),
        ],
    ],
)
def test_endless_recursion_is_refused(sets):
    with pytest.raises(RewriterError) as caught:
        lower(torch.relu, (X,), *sets)
    assert str(caught.value).endswith('of "aten.relu" calls itself, 16 calls deep')
    assert caught.value.hint == "call ctx.origin_op instead of the operator"


def test_recursion_that_ends_is_allowed():
    def two_by_two(ctx, tensors, dim=0):
        if len(tensors) == 2:
            return ctx.origin_op(tensors, dim)
        return torch.cat([torch.cat(tensors[:-1], dim), tensors[-1]], dim)

    program, report = lower(
        lambda x: torch.cat([x, x, x, x]), (X,), declared("aten.cat", two_by_two)
    )
    assert targets(program) == ["aten.cat.default"] * 3
    assert report.fired == {"aten.cat": 1}


@pytest.mark.parametrize(
    "replacement",
    [
        lambda ctx, x: x * 2 if x.sum() > 0 else x,
        lambda ctx, x: x * x.sum().item(),
        lambda ctx, x: x * float(x.sum()),
        lambda ctx, x: x * ctx.value_of(x).max(),
    ],
)
def test_lowering_may_read_only_constants(replacement):
    assert refused(torch.relu, "aten.relu", replacement) == (
        "reads the values of a tensor that depends on the model's inputs",
        "read constants only: ctx.value_of(x) if ctx.is_constant(x)",
    )


def test_error_inside_a_lowering_names_it():
    def wrong(ctx, x):
        return x.numpy()

    message, hint = refused(torch.relu, "aten.relu", wrong)
    assert message == "failed: RuntimeError: .numpy() is not supported for tensor subclasses."
    assert hint is None


@pytest.mark.parametrize("name", ["relu", "torch.relu", "aten::relu", "aten.max.dim.out", "a..b"])
def test_invalid_operator_name_is_refused(name):
    with pytest.raises(RewriterError, match="which is not the name of an operator, such as"):
        declared(name, lambda ctx, x: x)


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ("dims", "'needs' of the lowering of \"aten.relu\" must be a list, not a str"),
        (
            ["size"],
            (
                "'needs' of the lowering of \"aten.relu\" contains 'size'; "
                "expected one of dims, complex, lacking"
            ),
        ),
    ],
)
def test_unknown_needs_are_refused(needs, message):
    with pytest.raises(RewriterError) as caught:
        declared("aten.relu", lambda ctx, x: x, needs=needs)
    assert str(caught.value) == message


def test_decorator_without_a_name_is_refused():
    with pytest.raises(RewriterError) as caught:
        RewriterSet().lowering(lambda ctx, x: x)
    assert (
        str(caught.value)
        == "@rewriters.lowering expected the name of the object to rewrite, found a function"
    )


def test_error_names_every_operator_that_the_engine_lacks():
    model = Net(lambda x: torch.special.bessel_j0(torch.relu(x)) + torch.linalg.eigh(x @ x.T)[0][0])
    with pytest.raises(ConversionError) as caught:
        lower(model, (X,), operators={"aten.relu", "aten.add"})
    for operator in ("aten.special_bessel_j0", "aten._linalg_eigh", "aten.mm"):
        assert operator in str(caught.value)
    assert "aten.relu" not in str(caught.value)
