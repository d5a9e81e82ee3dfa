"""Systems of equations, and matrices, of known size; the batch may be open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting.portable.common import joined, lowers, torch

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext

#: So many rows are solved; each is some operators.
_ROWS = 128


@lowers("linalg_solve_triangular", open_sizes=True)
def linalg_solve_triangular(
    ctx: LoweringContext,
    a: Tensor,
    b: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    if not left:
        options = {"upper": not upper, "unitriangular": unitriangular}
        turned: Tensor = torch.linalg.solve_triangular(a.mT, b.mT, **options).mT
        return turned
    count = _count(a)
    batch = _batch(a, b)
    b = b.expand(*batch, *b.shape[-2:])
    solved: list[Tensor] = []
    for row in reversed(range(count)) if upper else range(count):
        result = b.narrow(-2, row, 1)
        factors = a.narrow(-2, row, 1)
        if solved:
            start, length = (row + 1, count - row - 1) if upper else (0, row)
            result = result - factors.narrow(-1, start, length) @ joined(solved, -2)
        if not unitriangular:
            result = result / factors.narrow(-1, row, 1)
        solved = [result, *solved] if upper else [*solved, result]
    return joined(solved, -2)


@lowers("triangular_solve", open_sizes=True)
def triangular_solve(
    ctx: LoweringContext,
    b: Tensor,
    a: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Tensor, Tensor]:
    turned = a.mT if transpose else a
    options = {"upper": upper != transpose, "unitriangular": unitriangular}
    return torch.linalg.solve_triangular(turned, b, **options), a.clone()


@lowers("linalg_cholesky_ex", open_sizes=True)
def linalg_cholesky_ex(
    ctx: LoweringContext, a: Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    """Take one column after the other off the matrix, of which torch reads one half."""
    rows = torch.arange(_count(a), device=a.device)
    rest, columns = a.mT if upper else a, []
    for place in range(_count(a)):
        column = rest[..., place] / rest[..., place, place].sqrt().unsqueeze(-1)
        column = torch.where(rows >= place, column, 0.0)
        rest = rest - column.unsqueeze(-1) * column.unsqueeze(-2)
        columns.append(column)
    factor = torch.stack(columns, -1)
    return factor.mT.clone() if upper else factor, _no_error(a)


@lowers("_linalg_solve_ex", open_sizes=True)
def _linalg_solve_ex(
    ctx: LoweringContext, a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Eliminate as :func:`_eliminated` does; the factors are for gradients, and zero."""
    is_vector = b.ndim == 1 or b.shape == a.shape[:-1]
    columns = b.unsqueeze(-1) if is_vector else b
    if left or is_vector:
        found, _ = _eliminated(a, columns)
    else:
        found = _eliminated(a.mT, columns.mT)[0].mT.clone()
    pivots = torch.zeros_like(a[..., 0], dtype=torch.int32)
    return found.squeeze(-1) if is_vector else found, torch.zeros_like(a), pivots, _no_error(a)


@lowers("linalg_inv_ex", open_sizes=True)
def linalg_inv_ex(
    ctx: LoweringContext, a: Tensor, *, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    identity = torch.eye(_count(a), dtype=a.dtype, device=a.device)
    return _eliminated(a, identity.expand(a.shape))[0], _no_error(a)


@lowers("_linalg_det", open_sizes=True)
def _linalg_det(ctx: LoweringContext, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Multiply the pivots; the factors are for gradients, and zero."""
    _, product = _eliminated(a, a[..., :0])
    return product, torch.zeros_like(a), torch.zeros_like(a[..., 0], dtype=torch.int32)


@lowers("linalg_det", "det", open_sizes=True)
def linalg_det(ctx: LoweringContext, a: Tensor) -> Tensor:
    return _eliminated(a, a[..., :0])[1]


@lowers("_linalg_slogdet", open_sizes=True)
def _linalg_slogdet(ctx: LoweringContext, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Take the sign and the logarithm of the product of the pivots."""
    _, product = _eliminated(a, a[..., :0])
    pivots = torch.zeros_like(a[..., 0], dtype=torch.int32)
    return product.sign(), product.abs().log(), torch.zeros_like(a), pivots


# These leave a check of their results behind, which nothing can translate.
@lowers("linalg_cholesky", open_sizes=True)
@lowers("cholesky", open_sizes=True, torch="<2.14")
def linalg_cholesky(ctx: LoweringContext, a: Tensor, upper: bool = False) -> Tensor:
    found: Tensor = torch.linalg.cholesky_ex(a, upper=upper)[0]
    return found


@lowers("linalg_inv", "inverse", open_sizes=True)
def linalg_inv(ctx: LoweringContext, a: Tensor) -> Tensor:
    found: Tensor = torch.linalg.inv_ex(a)[0]
    return found


@lowers("linalg_solve", open_sizes=True)
def linalg_solve(ctx: LoweringContext, a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    found: Tensor = torch.linalg.solve_ex(a, b, left=left)[0]
    return found


#: So often is a matrix halved before its exponential, and the exponential squared.
_HALVINGS = 12


@lowers("linalg_matrix_exp", "matrix_exp", open_sizes=True)
def linalg_matrix_exp(ctx: LoweringContext, a: Tensor) -> Tensor:
    """Taylor's series of a matrix halved until its norm is below 1/2; of norms up to 2048."""
    norm = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    is_large = [norm > 2.0 ** (step - 1) for step in range(_HALVINGS)]
    for large in is_large:
        a = torch.where(large, a / 2, a)
    identity = torch.eye(_count(a), dtype=a.dtype, device=a.device)
    found = identity.expand(a.shape)
    for degree in range(12 if a.dtype is torch.float64 else 8, 0, -1):
        found = identity + (a / degree) @ found
    for large in is_large:
        found = torch.where(large, found @ found, found)
    return found


def _eliminated(a: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Eliminate one column after the other, by the row that has most of it.

    Returns:
        The solution for each column on the right side, and the determinant.
    """
    batch = _batch(a, right)
    both = torch.cat([each.expand(*batch, *each.shape[-2:]) for each in (a, right)], -1)
    count = _count(a)
    rows = torch.arange(count, device=a.device)
    product = torch.ones_like(both[..., 0, 0])
    for place in range(count):
        left = torch.where(rows >= place, both[..., place].abs(), -1.0)
        largest = left.argmax(-1, keepdim=True)
        is_pivot = (rows == largest).unsqueeze(-1)
        pivot = torch.where(is_pivot, both, 0.0).sum(-2, keepdim=True)
        number = pivot[..., place : place + 1]
        sign = torch.where(largest == place, 1.0, -1.0).to(a.dtype)
        product = product * (number.squeeze(-1) * sign).squeeze(-1)
        # The row at this place goes where the pivot was.
        both = torch.where(is_pivot, both[..., place : place + 1, :], both)
        # A singular matrix has no solution, but a determinant.
        pivot = pivot / (number if right.shape[-1] else torch.where(number == 0, 1.0, number))
        others = both - both[..., place : place + 1] * pivot
        both = torch.where((rows == place).unsqueeze(-1), pivot, others)
    return both[..., count:].clone(), product


def _batch(a: Tensor, b: Tensor) -> tuple[int, ...]:
    shapes: Any = torch.broadcast_shapes  # which has no types
    return tuple(shapes(a.shape[:-2], b.shape[:-2]))


def _count(a: Tensor) -> int:
    count = a.shape[-1]
    if not isinstance(count, int) or count > _ROWS:
        raise RewriterError(
            f"a system of {count} equations cannot be solved step by step, wanted {_ROWS} at most"
        )
    return count


def _no_error(a: Tensor) -> Tensor:
    return torch.zeros_like(a[..., 0, 0], dtype=torch.int32)
