"""Operators of images on an engine without them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable.engine import FLOATS, check, examples, tensors
from torch.nn import functional


def image(draw, dims, *, low=1, dtypes=FLOATS):
    shape = [2, draw(st.integers(1, 3)), *(draw(st.integers(low, 6)) for _ in range(dims))]
    return draw(tensors(shape=shape, dtypes=dtypes))


MODES = {
    "nearest": (1, 3),
    "nearest-exact": (1, 3),
    "linear": (1, 1),
    "bilinear": (2, 2),
    "trilinear": (3, 3),
    "bicubic": (2, 2),
    "area": (1, 3),
}


@examples(exact=False)
def test_interpolate(draw):
    mode = draw(st.sampled_from(sorted(MODES)))
    dims = draw(st.integers(*MODES[mode]))
    x = image(draw, dims)
    options = {"mode": mode}
    if "linear" in mode or mode == "bicubic":
        options["align_corners"] = draw(st.booleans())
    size = [draw(st.integers(1, 8)) for _ in range(dims)]
    factor = draw(st.sampled_from([1.5, 2.0]))
    return lambda x: (
        functional.interpolate(x, size, **options),
        functional.interpolate(x, scale_factor=factor, **options),
    ), x


@examples(exact=False)
def test_interpolate_with_antialias(draw):
    mode = draw(st.sampled_from(["bilinear", "bicubic"]))
    x = image(draw, 2)
    options = {"mode": mode, "antialias": True, "align_corners": draw(st.booleans())}
    size = [draw(st.integers(1, 8)) for _ in range(2)]
    factor = draw(st.sampled_from([0.4, 1.7, (0.3, 1.7)]))
    recompute = draw(st.booleans())
    # At least one pixel is left.
    return lambda x: (
        functional.interpolate(x, size, **options),
        functional.interpolate(
            functional.pad(x, (0, 4, 0, 4)),
            scale_factor=factor,
            recompute_scale_factor=recompute,
            **options,
        ),
    ), x


@examples
def test_adaptive_max_pool(draw):
    dims = draw(st.integers(1, 3))
    x = image(draw, dims)
    size = [draw(st.integers(1, 5)) for _ in range(dims)]
    pool = getattr(functional, f"adaptive_max_pool{dims}d")
    return lambda x: pool(x, size, return_indices=True), x


@examples(exact=False)
def test_adaptive_avg_pool(draw):
    dims = draw(st.integers(1, 3))
    x = image(draw, dims)
    size = [draw(st.integers(1, 5)) for _ in range(dims)]
    return lambda x: getattr(functional, f"adaptive_avg_pool{dims}d")(x, size), x


@examples
def test_pad(draw):
    dims = draw(st.integers(1, 3))
    x = image(draw, dims, low=3)
    sides = [draw(st.integers(0, 2)) for _ in range(2 * dims)]
    less = [side - 1 for side in sides]
    return lambda x: (
        functional.pad(x, sides, "reflect"),
        functional.pad(x, sides, "replicate"),
        functional.pad(x, less, "replicate"),
    ), x


@examples(exact=False)
def test_unfold_and_fold(draw):
    x = image(draw, 2, low=4)
    pair = st.tuples(st.integers(1, 2), st.integers(1, 2))
    kernel, dilation, stride = draw(pair), draw(pair), draw(pair)
    padding = draw(st.integers(0, 1))

    def there_and_back(x):
        columns = functional.unfold(x, kernel, dilation, padding, stride)
        return columns, functional.fold(columns, x.shape[2:], kernel, dilation, padding, stride)

    return there_and_back, x


@examples(exact=False)
def test_grid_sample(draw):
    dims = draw(st.integers(2, 3))
    x = image(draw, dims)
    grid = torch.randn(2, *(draw(st.integers(1, 3)) for _ in range(dims)), dims).to(x.dtype)
    mode = draw(st.sampled_from(["nearest", "bilinear", *["bicubic"] * (dims == 2)]))
    pad = draw(st.sampled_from(["zeros", "border", "reflection"]))
    corners = draw(st.booleans())
    return lambda x, grid: functional.grid_sample(x, grid, mode, pad, corners), x, grid


def test_pixel_shuffle_and_unshuffle():
    x = torch.randn(2, 9, 6, 3)
    check((lambda x: (functional.pixel_shuffle(x, 3), functional.pixel_unshuffle(x, 3)), x))
