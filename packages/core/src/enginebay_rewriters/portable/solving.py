"""Lowerings of linear algebra for matrices of fixed size; the batch size may be dynamic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay_rewriters.portable.common import cat_parts, lowers, torch

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import LoweringContext

#: The maximum number of rows: each row adds several nodes to the graph.
_MAX_ROWS = 128


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
        # x·a = b is the same as aᵀ·xᵀ = bᵀ.
        options = {"upper": not upper, "unitriangular": unitriangular}
        turned: Tensor = torch.linalg.solve_triangular(a.mT, b.mT, **options).mT
        return turned
    count = _checked_size(a)
    batch = _batch_shape(a, b)
    b = b.expand(*batch, *b.shape[-2:])
    solved: list[Tensor] = []
    for row in reversed(range(count)) if upper else range(count):
        result = b.narrow(-2, row, 1)
        factors = a.narrow(-2, row, 1)
        if solved:
            start, length = (row + 1, count - row - 1) if upper else (0, row)
            result = result - factors.narrow(-1, start, length) @ cat_parts(solved, -2)
        if not unitriangular:
            result = result / factors.narrow(-1, row, 1)
        solved = [result, *solved] if upper else [*solved, result]
    return cat_parts(solved, -2)


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
    """Compute the factor column by column (outer-product form), from one triangle of ``a``."""
    rows = torch.arange(_checked_size(a), device=a.device)
    rest, columns = a.mT if upper else a, []
    for position in range(_checked_size(a)):
        column = rest[..., position] / rest[..., position, position].sqrt().unsqueeze(-1)
        column = torch.where(rows >= position, column, 0.0)
        rest = rest - column.unsqueeze(-1) * column.unsqueeze(-2)
        columns.append(column)
    factor = torch.stack(columns, -1)
    return factor.mT.clone() if upper else factor, _success_code(a)


@lowers("_linalg_solve_ex", open_sizes=True)
def _linalg_solve_ex(
    ctx: LoweringContext, a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    # The LU factors are zeros, since only gradients need them.
    is_vector = b.ndim == 1 or b.shape == a.shape[:-1]
    columns = b.unsqueeze(-1) if is_vector else b
    if left or is_vector:
        result, _ = _gauss_jordan(a, columns)
    else:
        result = _gauss_jordan(a.mT, columns.mT)[0].mT.clone()
    pivots = torch.zeros_like(a[..., 0], dtype=torch.int32)
    return (
        result.squeeze(-1) if is_vector else result,
        torch.zeros_like(a),
        pivots,
        _success_code(a),
    )


@lowers("linalg_inv_ex", open_sizes=True)
def linalg_inv_ex(
    ctx: LoweringContext, a: Tensor, *, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    identity = torch.eye(_checked_size(a), dtype=a.dtype, device=a.device)
    return _gauss_jordan(a, identity.expand(a.shape))[0], _success_code(a)


@lowers("_linalg_det", open_sizes=True)
def _linalg_det(ctx: LoweringContext, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # The LU factors are zeros, since only gradients need them.
    _, product = _gauss_jordan(a, a[..., :0])
    return product, torch.zeros_like(a), torch.zeros_like(a[..., 0], dtype=torch.int32)


@lowers("linalg_det", "det", open_sizes=True)
def linalg_det(ctx: LoweringContext, a: Tensor) -> Tensor:
    return _gauss_jordan(a, a[..., :0])[1]


@lowers("_linalg_slogdet", open_sizes=True)
def _linalg_slogdet(ctx: LoweringContext, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the sign of the determinant, and the logarithm of its absolute value.

    The other two results (the LU factors and the pivots) are zeros here.
    """
    _, product = _gauss_jordan(a, a[..., :0])
    pivots = torch.zeros_like(a[..., 0], dtype=torch.int32)
    return product.sign(), product.abs().log(), torch.zeros_like(a), pivots


# torch decomposes these to the operators above and a check that exporters cannot translate. torch
# 2.14 has no operator cholesky.
@lowers("linalg_cholesky", open_sizes=True)
@lowers("cholesky", open_sizes=True, torch="<2.14")
def linalg_cholesky(ctx: LoweringContext, a: Tensor, upper: bool = False) -> Tensor:
    result: Tensor = torch.linalg.cholesky_ex(a, upper=upper)[0]
    return result


@lowers("linalg_inv", "inverse", open_sizes=True)
def linalg_inv(ctx: LoweringContext, a: Tensor) -> Tensor:
    result: Tensor = torch.linalg.inv_ex(a)[0]
    return result


@lowers("linalg_solve", open_sizes=True)
def linalg_solve(ctx: LoweringContext, a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    result: Tensor = torch.linalg.solve_ex(a, b, left=left)[0]
    return result


#: The maximum number of times that a matrix is halved, and its exponential squared.
_HALVINGS = 12


@lowers("linalg_matrix_exp", "matrix_exp", open_sizes=True)
def linalg_matrix_exp(ctx: LoweringContext, a: Tensor) -> Tensor:
    """Use scaling and squaring with a Taylor series, for matrices of a 1-norm up to 2048."""
    # Moler and Van Loan, "Nineteen dubious ways to compute the exponential of a matrix", SIAM
    # Review 45, 2003, method 3.
    norm = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    is_large = [norm > 2.0 ** (step - 1) for step in range(_HALVINGS)]
    for large in is_large:
        a = torch.where(large, a / 2, a)
    identity = torch.eye(_checked_size(a), dtype=a.dtype, device=a.device)
    result = identity.expand(a.shape)
    # The norm is now at most 1/2: the first omitted term is below 6e-9, in float64 below 2e-14.
    for degree in range(12 if a.dtype is torch.float64 else 8, 0, -1):
        result = identity + (a / degree) @ result
    for large in is_large:
        result = torch.where(large, result @ result, result)
    return result


def _gauss_jordan(a: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Solve ``a @ x = right`` by Gauss-Jordan elimination with partial pivoting.

    Returns:
        The solution ``x``, and the determinant of ``a``.
    """
    batch = _batch_shape(a, right)
    augmented = torch.cat([each.expand(*batch, *each.shape[-2:]) for each in (a, right)], -1)
    count = _checked_size(a)
    rows = torch.arange(count, device=a.device)
    product = torch.ones_like(augmented[..., 0, 0])
    for position in range(count):
        # Every magnitude is larger than −1: no row above can become the pivot again.
        candidates = torch.where(rows >= position, augmented[..., position].abs(), -1.0)
        largest = candidates.argmax(-1, keepdim=True)
        is_pivot = (rows == largest).unsqueeze(-1)
        pivot = torch.where(is_pivot, augmented, 0.0).sum(-2, keepdim=True)
        number = pivot[..., position : position + 1]
        # Each swap of two rows changes the sign of the determinant.
        sign = torch.where(largest == position, 1.0, -1.0).to(a.dtype)
        product = product * (number.squeeze(-1) * sign).squeeze(-1)
        # Swap rows: the row at this position moves to the pivot's position.
        augmented = torch.where(is_pivot, augmented[..., position : position + 1, :], augmented)
        # Without a right side only the determinant is needed, which is 0 for a singular matrix.
        pivot = pivot / (number if right.shape[-1] else torch.where(number == 0, 1.0, number))
        others = augmented - augmented[..., position : position + 1] * pivot
        augmented = torch.where((rows == position).unsqueeze(-1), pivot, others)
    return augmented[..., count:].clone(), product


def _batch_shape(a: Tensor, b: Tensor) -> tuple[int, ...]:
    shapes: Any = torch.broadcast_shapes  # untyped in torch 2.13
    return tuple(shapes(a.shape[:-2], b.shape[:-2]))


def _checked_size(a: Tensor) -> int:
    count = a.shape[-1]
    if not isinstance(count, int) or count > _MAX_ROWS:
        raise RewriterError(
            f"linear algebra on a matrix with {count} rows is not supported, "
            f"expected at most {_MAX_ROWS} rows"
        )
    return count


def _success_code(a: Tensor) -> Tensor:
    return torch.zeros_like(a[..., 0, 0], dtype=torch.int32)
