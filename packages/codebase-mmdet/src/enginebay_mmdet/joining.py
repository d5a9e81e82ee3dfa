"""Replaces ``torch.cat``, which is exported with a fixed batch size under torch.vmap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._functorch.autograd_function import VmapInfo


@torch.library.custom_op("enginebay_mmdet::cat", mutates_args=())
def cat(tensors: list[Tensor], dim: int) -> Tensor:
    """Concatenate tensors along a dimension that is counted from the end, such as -1."""
    return torch.cat(tensors, dim)


@cat.register_fake
def _(tensors: list[Tensor], dim: int) -> Tensor:
    return torch.cat(tensors, dim)


def _map_over_batch(
    info: VmapInfo, in_dims: Sequence[Sequence[int | None]], tensors: list[Tensor], dim: int
) -> tuple[Tensor, int]:
    """Concatenate the tensors of all images; torch.vmap calls this function instead of ``cat``."""
    moved = [
        x.unsqueeze(0).expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
        for x, axis in zip(tensors, in_dims[0], strict=True)
    ]
    return torch.cat(moved, dim), 0


cat.register_vmap(_map_over_batch)
