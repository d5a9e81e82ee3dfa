"""``mT``, ``mH`` and ``adjoint``: no reader of a trace knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.rewriting.builtin.targets import not_dynamo

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    rewriters.function("torch.Tensor.mT", check=not_dynamo)(matrix_transpose)
    for name in ("torch.Tensor.mH", "torch.adjoint", "torch.Tensor.adjoint"):
        rewriters.function(name, check=not_dynamo)(adjoint)


def matrix_transpose(ctx: Context, input: Tensor) -> Tensor:  # noqa: A002  # torch's name
    """Rewrites ``Tensor.mT``: exchanges the last two dimensions."""
    if input.dim() < 2:
        transposed: Tensor = ctx.origin_func(input)
        return transposed
    return input.transpose(-2, -1)


def adjoint(ctx: Context, input: Tensor) -> Tensor:  # noqa: A002  # torch's name
    """Rewrites ``torch.adjoint``: of real numbers it is the transpose."""
    if input.dim() < 2 or input.is_complex():
        transposed: Tensor = ctx.origin_func(input)
        return transposed
    return input.transpose(-2, -1)
