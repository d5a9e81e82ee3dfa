"""``histc``: only the default exporter has a translation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import not_dynamo

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.histc", "torch.Tensor.histc"):
        rewriters.function(name, check=not_dynamo)(histc)


def histc(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    bins: int = 100,
    min: float = 0,  # noqa: A002  # torch's name
    max: float = 0,  # noqa: A002  # torch's name
    **kwargs: Any,
) -> Any:
    """Rewrites ``torch.histc`` over a given range: compares each value's bin with every bin.

    With equal ends torch takes the range from the data, NaN included, which stays with torch.
    """
    import torch

    if not min < max or bins < 1 or kwargs or not input.dtype.is_floating_point:
        return ctx.origin_func(input, bins, min, max, **kwargs)
    values = input.reshape(-1, 1)
    inside = (values >= min) & (values <= max)
    # The largest value belongs to the last bin; the rest as torch rounds it.
    place = ((values - min) * bins / (max - min)).floor().clamp(max=bins - 1)
    every = torch.arange(bins, dtype=input.dtype, device=input.device)
    return ((place == every) & inside).to(input.dtype).sum(0)
