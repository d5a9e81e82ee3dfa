"""Products of groups."""

from __future__ import annotations

import torch


def test_grouped_products_match_torch(lowered):
    a = torch.randn(7, 8).bfloat16()
    b = torch.randn(3, 8, 16).bfloat16()
    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    program = lowered(lambda a, b, ends: torch.ops.aten._grouped_mm(a, b, ends), [a, b, ends])
    wanted = torch.cat([a[:2] @ b[0], a[2:] @ b[2]])
    torch.testing.assert_close(program.module()(a, b, ends), wanted)
