"""Images of other sizes, and circular pads."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

#: Modes of ``interpolate``, with the dimensions of an image and more options.
MODES = [
    ("nearest-exact", (7,), {}),
    ("nearest-exact", (5, 7), {}),
    ("nearest-exact", (3, 4, 5), {}),
    ("nearest", (3, 4, 5), {}),
    ("trilinear", (3, 4, 5), {"align_corners": False}),
    ("trilinear", (3, 4, 5), {"align_corners": True}),
    *(
        (mode, (6, 9), {"antialias": True, "align_corners": corners})
        for mode in ("bilinear", "bicubic")
        for corners in (False, True)
    ),
]


def cases(mode, image, options):
    """An image made larger and smaller, and by a factor."""
    x = torch.randn(2, 3, *image)
    larger, smaller = [2 * n - 1 for n in image], [n // 2 + 1 for n in image]
    how = {"mode": mode, **options}
    return [
        (lambda x: functional.interpolate(x, size=larger, **how), x),
        (lambda x: functional.interpolate(x, size=smaller, **how), x.double()),
        (lambda x: functional.interpolate(x, scale_factor=1.5, **how), x.mT.contiguous().mT),
    ]


@pytest.mark.slow
def test_resizing_matches_torch(check):
    program = check(*(case for mode in MODES for case in cases(*mode)))
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert "aten.matmul.default" in names
    assert not any("index" in name for name in names)


def test_circular_padding_matches_torch(check):
    def padded(*sides):
        return lambda x: functional.pad(x, sides, mode="circular")

    x = torch.randn(2, 3, 4, 5)
    program = check(
        (padded(2, 0), x[0]),
        (padded(1, 3, 2, 4), x),
        (padded(-1, 2, 0, -1), x),
        (padded(1, 1, 1, 1, 0, 2), x[None]),
        exact=True,
    )
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert not any("scatter" in name for name in names)


def test_other_padding_is_left_to_torch(check):
    x = torch.randn(2, 3, 4, 5)
    check(
        (lambda x: functional.pad(x, (1, -1), value=2.0), x),
        (lambda x: functional.pad(x, (1, 2, 0, 1), mode="reflect"), x),
        exact=True,
    )
