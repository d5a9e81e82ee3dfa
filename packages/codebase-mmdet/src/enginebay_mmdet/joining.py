"""``torch.cat`` for torch.vmap with any number of images: torch's own rule fixes the number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("enginebay_mmdet::cat", mutates_args=())
def cat(tensors: list[Tensor], dim: int) -> Tensor:
    """Join tensors along a dimension that is counted from the last one, -1."""
    return torch.cat(tensors, dim)


@cat.register_fake
def _(tensors: list[Tensor], dim: int) -> Tensor:
    return torch.cat(tensors, dim)


def _map_over_batch(info: Any, in_dims: Any, tensors: list[Tensor], dim: int) -> tuple[Tensor, int]:
    """Join the tensors of all images: torch.vmap's rule for the operator."""
    moved = [
        x.unsqueeze(0).expand(info.batch_size, *x.shape) if at is None else x.movedim(at, 0)
        for x, at in zip(tensors, in_dims[0], strict=True)
    ]
    return torch.cat(moved, dim), 0


cat.register_vmap(_map_over_batch)
