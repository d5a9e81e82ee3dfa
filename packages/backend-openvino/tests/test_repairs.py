"""Operators of any network are made to compute what ONNX's do, or a note names them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import openvino
import pytest
import torch

import enginebay as eb
from enginebay_openvino.repairs import describe_differences, repair_network

BOXES = "(float[1, 40, 4] boxes, float[1, 1, 40] scores) => (int64[n, 3] kept)"


def suppression(threshold: float) -> str:
    return (
        f"{BOXES} <int64 most = {{100}}, float threshold = {{{threshold!r}}}, float low = {{0}}> "
        "{ kept = NonMaxSuppression(boxes, scores, most, threshold, low) }"
    )


def keep(boxes: Any, scores: Any, threshold: float) -> list[int]:
    """Suppress as ONNX defines it: a box goes if an overlap is above the threshold."""
    kept: list[int] = []
    for box in np.argsort(-scores):
        corners = boxes[box]
        for other in boxes[kept]:
            low, high = np.maximum(corners[:2], other[:2]), np.minimum(corners[2:], other[2:])
            shared = np.prod(np.maximum(high - low, 0))
            areas = sum(np.prod(each[2:] - each[:2]) for each in (corners, other))
            if np.float32(shared / (areas - shared)) > np.float32(threshold):
                break
        else:
            kept.append(int(box))
    return kept


@pytest.mark.parametrize("threshold", [0.0, 0.2, 1 / 3, 0.5, 0.6, 1.0])
def test_a_box_at_exactly_the_threshold_is_kept(load, threshold):
    random = np.random.default_rng(0)
    corners = random.integers(0, 6, (40, 2))
    boxes = np.hstack([corners, corners + random.integers(1, 6, (40, 2))]).astype(np.float32)
    scores = random.permutation(40).astype(np.float32) + 1
    found = load(suppression(threshold))({"boxes": boxes[None], "scores": scores[None, None]})
    assert sorted(found["kept"][:, 2].tolist()) == sorted(keep(boxes, scores, threshold))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_float8_saturates(load, dtype):
    # 17 is float8_e4m3fn, 1 is float32.
    body = "{ z = Cast<to = 17>(x) y = Cast<to = 1>(z) }"
    text = f"({dtype.replace('32', '')}[n] x) => (float[n] y) {body}"
    x = np.array([1, -2, 447, 500, -6e4, np.inf, -np.inf, np.nan]).astype(dtype)
    wanted = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(load(text)({"x": x})["y"], wanted)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    ("body", "exact"),
    [
        ("y = Mod(a, b)", np.mod),
        ("y = Mod<fmod = 1>(a, b)", np.fmod),
        ("y = Div(a, b)", lambda a, b: (a - np.fmod(a, b)) // b),
        ("y = Pow(a, two)", lambda a, b: a * a),
        ("y = Pow(a, seven)", lambda a, b: a**7),
    ],
)
def test_integers_beyond_float32_are_exact(load, body, exact, dtype):
    random = np.random.default_rng(0)
    a = random.integers(-(2**31) + 1, 2**31, 1000).astype(dtype)
    b = random.integers(-9000, 9000, 1000).astype(dtype)
    a[:20], b[:20] = np.arange(-10, 10), 3
    b[b == 0] = 7
    if "Pow" in body:
        a = a % (46_000 if "two" in body else 20)
    text = (
        f"({dtype}[n] a, {dtype}[n] b) => ({dtype}[n] y) "
        f"<{dtype} two = {{2}}, {dtype} seven = {{7}}> {{ {body} }}"
    )
    found = load(text)({"a": a, "b": b})["y"]
    np.testing.assert_array_equal(found, exact(a, b))


def test_sizes_are_left_alone(write):
    text = (
        "(float[n, m] x) => (float[r, c] y) <int64[1] two = {2}, int64[1] zero = {0}> "
        "{ s = Shape(x) p = Gather(s, zero) q = Div(p, two) t = Concat<axis = 0>(q, less) "
        "y = Reshape(x, t) }"
    ).replace("<int64[1] two", "<int64[1] less = {-1}, int64[1] two")
    model = openvino.Core().read_model(write(text))
    before = [node.get_type_name() for node in model.get_ordered_ops()]
    repair_network(model)
    assert [node.get_type_name() for node in model.get_ordered_ops()] == before


@pytest.mark.parametrize("sizes", ["fixed", "open"])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(3, 2, 1), (4, 3, 2), (5, 4, 1), (2, 3, 1)])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.one_in(3)
def test_cells_beyond_the_padding_are_not_averaged(load, dims, kernel, stride, pad, sizes):
    shape = (6, 5, 7)[-dims:]
    declared = ", ".join(map(str, shape) if sizes == "fixed" else "hwd"[:dims])
    text = (
        f"(float[2, 3, {declared}] x) => (float[n, c, {', '.join('uvw'[:dims])}] y) "
        f"{{ y = AveragePool<kernel_shape = {[kernel] * dims}, strides = {[stride] * dims}, "
        f"pads = {[pad] * 2 * dims}, ceil_mode = 1, count_include_pad = 1>(x) }}"
    )
    x = np.random.default_rng(0).random((2, 3, *shape), np.float32) + 1
    pool = getattr(torch.nn.functional, f"avg_pool{dims}d")
    wanted = pool(torch.from_numpy(x), kernel, stride, pad, ceil_mode=True).numpy()
    np.testing.assert_allclose(load(text)({"x": x})["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            (
                "(float[1, 1, 8, 8] x) => (float[1, 1, 4, 4] y) <float[4] s = {1, 1, 0.5, 0.5}> "
                '{ y = Resize<mode = "linear", antialias = 1>(x, , s) }'
            ),
            (
                "'y': OpenVINO ignores antialias, so that an image that shrinks is not smoothed; a "
                "PyTorch model whose images have a fixed size is rewritten"
            ),
        ),
        (
            "(float[6] x) => (float[4] y, int64[4] i) <int64[1] k = {4}> { y, i = TopK(x, k) }",
            "'i': OpenVINO does not sort values that contain NaN; replace NaN before",
        ),
        ("(int64[6] x) => (int64[4] y, int64[4] i) <int64[1] k = {4}> { y, i = TopK(x, k) }", ""),
        (
            (
                "(float[1, 1, 6] x) => (float[1, 1, 3] y) { y = AveragePool<kernel_shape = [3], "
                "strides = [2], ceil_mode = 1>(x) }"
            ),
            "",
        ),
    ],
)
def test_what_differs_is_described(write, text, note):
    found = list(describe_differences(openvino.Core().read_model(write(text))))
    assert found == ([note] if note else [])


def test_a_note_beside_the_verdict_names_what_differs(write, tmp_path):
    text = "(float[6] x) => (float[4] y, int64[4] i) <int64[1] k = {4}> { y, i = TopK(x, k) }"
    x = np.arange(6, dtype=np.float32)
    made = eb.deploy(write(text), {"x": x}, backend="openvino", work_dir=tmp_path / "out")
    note = "'i': OpenVINO does not sort values that contain NaN; replace NaN before"
    assert (made.verdict, note in made.notes) == ("verified", True)
