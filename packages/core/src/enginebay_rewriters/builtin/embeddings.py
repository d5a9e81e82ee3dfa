"""Bags of embeddings, for which exporters write loops: rows of the table, and their reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_rewriters.builtin.common import rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context


@rewriters.function("torch.nn.functional.embedding_bag")
def reduce_embeddings(
    ctx: Context,
    input: Tensor,  # torch's name
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Reduce the rows of each bag: along an axis, or with the mask of the bags over all rows."""
    if max_norm is not None:  # torch scales the table itself
        return ctx.origin_func(
            *(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse),
            *(per_sample_weights, include_last_offset, padding_idx),
        )
    rows = functional.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    kept = None if padding_idx is None else input != padding_idx % weight.shape[0]
    if offsets is not None:
        inside = _find_members(offsets, input, include_last_offset)
        kept = inside if kept is None else inside & kept
        rows = rows.unsqueeze(0)
    if kept is None:
        if mode == "max":
            return rows.amax(1)
        return rows.sum(1) if mode == "sum" else rows.mean(1)
    if mode == "max":
        low = torch.where(kept.unsqueeze(-1), rows, torch.finfo(rows.dtype).min).amax(1)
        return torch.where(kept.any(1, keepdim=True), low, 0.0)
    total = (kept.to(rows.dtype).unsqueeze(-1) * rows).sum(1) if offsets is None else None
    if total is None:
        total = kept.to(rows.dtype) @ rows.squeeze(0)
    if mode == "sum":
        return total
    return total / kept.to(rows.dtype).sum(1, keepdim=True).clamp(min=1)


def _find_members(offsets: Tensor, indices: Tensor, includes_end: bool) -> Tensor:
    """Return a mask of bags × indices: True where the index belongs to the bag."""
    position = torch.arange(indices.shape[0], device=indices.device)
    if includes_end:
        starts, ends = offsets[:-1], offsets[1:]
    else:
        starts = offsets
        ends = torch.cat([offsets[1:], torch.full_like(offsets[:1], indices.shape[0])])
    return (position >= starts.unsqueeze(1)) & (position < ends.unsqueeze(1))
