from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from hypothesis.extra import numpy as hnp

from enginebay.errors import UsageError
from enginebay.verification import compare_outputs
from enginebay.verification.output_arrays import find_small_slices

if TYPE_CHECKING:
    from enginebay.verdict import OutputComparison


def compare(expected, found, **options) -> OutputComparison:
    (result,) = compare_outputs({"y": expected}, {"y": found}, **options)
    return result


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_equal_outputs_pass_with_all_figures():
    values = normal(2, 3)
    result = compare(values, values.copy())
    scale = float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))
    assert result.passed
    assert (result.dtype, result.shape, result.total) == ("float32", (2, 3), 6)
    assert (result.mismatched_count, result.reason) == (0, "")
    assert (result.max_abs_error, result.max_rel_error, result.rtol_that_passes) == (0.0, 0.0, 0.0)
    assert result.rtol == 2**-13
    assert result.atol == pytest.approx(2**-13 * scale)


def test_the_worst_place_is_shown():
    values, wrong = np.full((2, 3), 2, np.float32), np.full((2, 3), 2, np.float32)
    wrong[1, 2], wrong[0, 1] = 2.5, 2.1
    result = compare(values, wrong)
    assert not result.passed
    assert (result.worst_index, result.worst_expected, result.worst_found) == ((1, 2), "2.0", "2.5")
    assert (result.max_abs_error, result.max_rel_error) == (0.5, 0.25)
    assert result.mismatched_count == 2
    assert result.reason == "2 of 6 elements differ"
    assert result.describe() == (
        '"y" at [1, 2]: expected 2.0, found 2.5; 2 of 6 elements differ;'
        " allowed rtol 0.000122, atol 0.000244; rtol 0.126 would pass"
    )


@pytest.mark.parametrize("unit", [1e-30, 1e-6, 1.0, 1e4, 1e30])
def test_the_verdict_does_not_depend_on_the_unit(unit):
    values = normal(1000)
    noise = normal(1000, seed=1)
    expected = values * np.float32(unit)
    assert compare(expected, (values + 1e-5 * noise) * np.float32(unit)).passed
    assert not compare(expected, (values + 1e-2 * noise) * np.float32(unit)).passed
    assert not compare(expected, np.zeros_like(expected)).passed


@pytest.mark.parametrize("unit", [1e-30, 1e200, 1e300, 5e307])
def test_extreme_float64_values_are_compared(unit):
    expected = np.array([1.0, -2.0, 3.0]) * unit
    assert compare(expected, expected * (1 + 1e-6)).passed
    assert not compare(expected, expected * 1.01).passed


def test_a_single_wrong_element_of_a_large_output_fails():
    expected = normal(3, 500_001)  # more than one chunk
    found = expected.copy()
    found[2, 499_999] += 0.01
    result = compare(expected, found)
    assert (result.passed, result.mismatched_count) == (False, 1)
    assert result.worst_index == (2, 499_999)


@pytest.mark.parametrize("stand_in", [-1e9, -65504.0, -1e4, 3.4e38])
def test_mask_constants_do_not_widen_the_tolerance(stand_in):
    expected = normal(100, 100)
    expected[np.triu_indices(100, 1)] = stand_in
    assert compare(expected, expected * np.float32(1 + 1e-6)).passed
    assert not compare(expected, expected + np.float32(0.01)).passed


def test_large_outputs_are_not_taken_for_mask_constants():
    expected = np.linspace(-1e6, 1e6, 10_001, dtype=np.float32)
    assert compare(expected, expected + np.float32(10)).passed
    assert not compare(expected, expected + np.float32(1000)).passed


def test_a_zero_is_compared_at_the_scale_of_its_output():
    expected = np.array([0.0, 1.0], np.float32)
    assert compare(expected, np.array([1e-6, 1.0], np.float32)).passed
    assert not compare(expected, np.array([1e-3, 1.0], np.float32)).passed


def test_an_output_of_zeros_matches_only_zeros():
    zeros = np.zeros(4, np.float32)
    assert compare(zeros, -zeros).passed
    result = compare(zeros, zeros + np.float32(1e-9))
    assert not result.passed
    assert result.rtol_that_passes is None
    assert result.describe().endswith("; atol 1.01e-09 would pass")
    assert compare(zeros, zeros + np.float32(1e-9), atol=1.01e-9).passed


@pytest.mark.parametrize(
    ("precision", "passes", "fails"),
    [("fp32", 1e-4, 1e-3), ("fp16", 5e-3, 5e-2), ("bf16", 5e-2, 0.5), ("int8", 0.2, 1.0)],
)
def test_precision_sets_the_tolerance(precision, passes, fails):
    expected = normal(1000)
    assert compare(expected, expected + np.float32(passes), precision=precision).passed
    assert not compare(expected, expected + np.float32(fails), precision=precision).passed


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8", "fp8"])
def test_an_unrelated_output_never_passes(precision):
    for wrong in (normal(1000, seed=5), np.zeros(1000, np.float32), -normal(1000)):
        assert not compare(normal(1000), wrong, precision=precision).passed


def test_small_outputs_of_a_half_precision_engine_may_underflow():
    expected = np.array([1e-9, 0.5], np.float32)
    assert compare(expected, np.array([0, 0.5], np.float32), precision="fp16").passed
    tiny = np.array([1e-5, 2e-5], np.float32)
    assert not compare(tiny, np.zeros(2, np.float32), precision="fp16").passed


# NaN and infinity


def test_nan_and_infinity_in_both_outputs_pass():
    values = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    result = compare(values, values.copy())
    assert result.passed
    assert result.reason == "1 of 4 elements are NaN in both"
    assert (result.mismatched_count, result.max_abs_error) == (0, 0.0)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (np.nan, 1.0),
        (1.0, np.nan),
        (np.inf, 1.0),
        (1.0, -np.inf),
        (np.inf, -np.inf),
        (np.nan, np.inf),
        (np.inf, np.nan),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_nan_or_infinity_in_one_output_fails(expected, found, dtype):
    left, right = np.array([5, expected, 7], dtype), np.array([5, found, 8], dtype)
    result = compare(left, right)
    assert not result.passed
    assert (result.worst_index, result.mismatched_count) == ((1,), 2)
    assert result.reason == "2 of 3 elements differ, 1 of them NaN or infinite in one output only"
    assert (result.rtol_that_passes, result.atol_that_passes) == (None, None)
    assert result.describe().endswith("; no tolerance would pass")
    assert result.max_abs_error == 1.0
    for loose in ({"rtol": 1e9}, {"atol": 1e9}):
        assert not compare(left, right, **loose).passed


def test_infinity_does_not_change_the_scale():
    expected = np.append(normal(100), np.float32(np.inf))
    wrong = expected + np.float32(0.01)
    assert not compare(expected, wrong).passed


def test_an_overflowing_difference_fails_with_a_finite_error():
    result = compare(np.array([1.7e308]), np.array([-1.7e308]))
    assert not result.passed
    assert result.max_abs_error == sys.float_info.max


# dtypes, shapes, names


def test_a_different_dtype_fails():
    result = compare(normal(2), normal(2).astype(np.float16))
    assert not result.passed
    assert result.reason == "its dtype differs: expected float32, found float16"
    assert result.describe() == '"y": its dtype differs: expected float32, found float16'
    assert (result.max_abs_error, result.worst_index, result.total) == (None, None, 0)


@pytest.mark.parametrize("shape", [(4,), (1, 2), (2, 1), (), (0, 2)])
def test_a_different_shape_fails_without_broadcasting(shape):
    result = compare(np.zeros((2, 2), np.float32), np.zeros(shape, np.float32))
    assert not result.passed
    assert result.reason == f"its shape differs: expected (2, 2), found {shape}"


def test_missing_and_extra_outputs_fail():
    wanted = {"a": normal(1), "b": normal(2)}
    given_ = {"b": normal(2), "c": normal(3).astype(np.float16)}
    missing, shared, extra = compare_outputs(wanted, given_)
    assert [missing.name, shared.name, extra.name] == ["a", "b", "c"]
    assert [missing.passed, shared.passed, extra.passed] == [False, True, False]
    assert missing.reason == 'the artifact has no such output; its outputs: "b", "c"'
    assert extra.reason == 'the reference has no such output; its outputs: "a", "b"'
    assert (extra.dtype, extra.shape) == ("float16", (3,))
    (alone,) = compare_outputs({"a": normal(1)}, {})
    assert alone.reason == "the artifact has no such output; its outputs: none"


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "U3"])
@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_empty_arrays_are_equal(dtype, shape):
    result = compare(np.zeros(shape, dtype), np.zeros(shape, dtype))
    assert result.passed
    assert (result.total, result.reason) == (0, "both outputs are empty")


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex128"])
def test_scalars_are_compared(dtype):
    assert compare(np.ones((), dtype), np.ones((), dtype)).passed
    result = compare(np.ones((), dtype), np.zeros((), dtype))
    assert (result.passed, result.worst_index) == (False, ())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_integers_must_be_equal(dtype):
    top = np.iinfo(dtype).max
    expected, found = np.array([0, top, top], dtype), np.array([0, top, top - 1], dtype)
    assert compare(expected, expected.copy(), rtol=0.5).passed
    result = compare(expected, found, rtol=0.5, precision="int8")
    assert (result.passed, result.worst_index, result.max_abs_error) == (False, (2,), 1.0)
    assert (result.worst_expected, result.worst_found) == (str(top), str(top - 1))
    assert (result.rtol_that_passes, result.atol_that_passes) == (None, 1.0)
    assert result.describe().endswith("allowed rtol 0, atol 0; atol 1 would pass")
    assert compare(expected, found, atol=1).passed


def test_integers_do_not_wrap_around():
    result = compare(np.array([0], np.uint8), np.array([255], np.uint8), atol=1)
    assert (result.passed, result.max_abs_error) == (False, 255.0)


def test_bools_are_never_nearly_equal():
    expected = np.array([True, False])
    assert compare(expected, expected.copy()).passed
    result = compare(expected, ~expected, atol=10, rtol=10)
    assert (result.passed, result.mismatched_count) == (False, 2)
    assert (result.worst_expected, result.worst_found) == ("True", "False")


def test_texts_must_be_equal():
    expected = np.array(["cat", "dog"])
    assert compare(expected, expected.astype("U20")).passed
    assert compare(expected, expected.astype(object)).passed
    result = compare(expected, np.array(["cat", "dogs"], object))
    assert (result.passed, result.dtype, result.worst_index) == (False, "string", (1,))
    assert (result.worst_expected, result.worst_found) == ("'dog'", "'dogs'")


def test_a_text_is_shown_on_one_line():
    long = np.array(["a\nb" + "c" * 1000], object)
    assert compare(np.array(["a\nb"]), long).describe() == (
        f"\"y\" at [0]: expected 'a\\nb', found 'a\\nb{'c' * 77}'; 1 of 1 elements differ;"
        " allowed rtol 0, atol 0; no tolerance would pass"
    )


def test_complex_numbers_are_compared_by_absolute_difference():
    expected = np.array([3 + 4j, 1], np.complex64)
    assert compare(expected, expected * np.complex64(1 + 1e-6j)).passed
    result = compare(expected, expected * np.complex64(1j))
    assert not result.passed
    assert result.max_abs_error == pytest.approx(5 * 2**0.5)


def test_the_byte_order_and_the_strides_do_not_matter():
    values = normal(4, 6)
    assert compare(values.T, np.asfortranarray(values.T).astype(">f4")).passed
    wrong = values[:, ::-1].copy()[:, ::-1]
    wrong[3, 1] += 1
    assert compare(values, wrong).worst_index == (3, 1)


def test_comparing_does_not_change_the_outputs():
    expected, found = normal(10), normal(10) + np.float32(1)
    before = expected.copy(), found.copy()
    expected.flags.writeable = found.flags.writeable = False
    assert not compare(expected, found).passed
    assert np.array_equal(expected, before[0])
    assert np.array_equal(found, before[1])


def test_lists_and_numbers_are_taken_as_arrays():
    assert compare([1.0, 2.0], [1.0, 2.0]).passed
    assert not compare(3, 4).passed


# tolerances of the caller


def test_rtol_keeps_the_outputs_scale_and_atol_replaces_it():
    expected = np.array([0.0, 10.0], np.float32)
    found = np.array([0.05, 10.0], np.float32)
    scale = float(np.sqrt(50))
    assert compare(expected, found, rtol=0.01).atol == pytest.approx(0.01 * scale)
    assert compare(expected, found, rtol=0.01).passed
    assert not compare(expected, found, rtol=0.01, atol=0.01).passed
    assert compare(expected, found, atol=0.06).passed
    assert compare(expected, found, atol=0.06).rtol == 2**-13


def test_rtol_of_zero_requires_equal_values():
    expected = normal(10)
    assert compare(expected, expected.copy(), rtol=0).passed
    assert not compare(expected, np.nextafter(expected, np.float32(9)), rtol=0).passed


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_an_invalid_tolerance_is_refused(name, value):
    with pytest.raises(UsageError) as caught:
        compare_outputs({}, {}, **{name: value})
    assert str(caught.value) == (f'invalid {name} "{value}": expected a number of at least 0')


def test_an_unknown_precision_is_refused():
    with pytest.raises(UsageError, match="unknown precision 'fp1'; available: fp32"):
        compare(normal(1), normal(1), precision="fp1")


DTYPES = st.sampled_from([np.float16, np.float32, np.float64, np.complex64])


@st.composite
def pairs(draw):
    dtype = draw(DTYPES)
    shape = draw(hnp.array_shapes(max_dims=3, max_side=4))
    return tuple(draw(hnp.arrays(dtype, shape)) for _ in range(2))


@given(pair=pairs(), rtol=st.none() | st.floats(0, 10), atol=st.none() | st.floats(0, 10))
def test_the_suggested_tolerance_passes(pair, rtol, atol):
    result = compare(*pair, rtol=rtol, atol=atol)
    if result.rtol_that_passes is not None:
        loose = max(result.rtol_that_passes, 1e-300)
        assert compare(*pair, rtol=loose, atol=atol).passed
        if not result.passed and rtol != 0:  # an rtol of 0 has no allowance for underflow
            assert not compare(*pair, rtol=loose * 0.98, atol=atol).passed
    if result.atol_that_passes is not None:
        assert compare(*pair, rtol=rtol, atol=result.atol_that_passes).passed


@given(pair=pairs(), rtol=st.floats(0, 1), atol=st.floats(0, 1))
def test_results_match_numpy_isclose(pair, rtol, atol):
    expected, found = (values.astype(np.complex128) for values in pair)
    with np.errstate(all="ignore"):
        close = np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    result = compare(expected, found, rtol=rtol, atol=atol)
    assert result.passed == bool(close.all())
    assert result.mismatched_count == np.count_nonzero(~close)


@given(values=hnp.arrays(DTYPES, hnp.array_shapes(max_side=4)))
@example(values=np.full((1, 3), 1.2e307))
def test_anything_equals_itself(values):
    assert compare(values, values.copy(), rtol=0).passed


@pytest.mark.slow
def test_large_outputs_are_not_copied_to_float64():
    program = (
        "import resource, numpy as np\n"
        "from enginebay.verification import compare_outputs\n"
        "a = np.ones(1 << 26, np.float16); b = a.copy()\n"
        "compare_outputs({'y': a[:9]}, {'y': b[:9]})\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert compare_outputs({'y': a}, {'y': b})[0].passed\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 96  # MiB; one copy in float64 would take 512


def boxes_and_scores():
    boxes = np.random.default_rng(0).uniform(0, 1333, (1, 100, 4))
    scores = np.random.default_rng(1).uniform(0, 1, (1, 100, 1))
    return np.concatenate([boxes, scores], -1).astype(np.float32)


def test_box_coordinates_do_not_widen_the_tolerance_of_scores():
    expected = boxes_and_scores()
    wrong = expected + np.float32([0, 0, 0, 0, 0.05])
    assert not compare(expected, wrong).passed
    assert compare(expected, expected * np.float32(1 + 1e-6)).passed


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_small_slice_is_compared_at_its_own_scale(axis):
    x = normal(4, 4, 4)
    expected = np.concatenate([np.cos(x) * 1000, np.sin(x) * 0.01], axis)
    assert not compare(expected, np.concatenate([np.cos(x) * 1000, 0 * x], axis)).passed
    assert compare(expected, expected * np.float32(1 + 1e-5)).passed


def test_a_slice_of_rounding_noise_uses_the_output_scale():
    expected = np.concatenate([normal(4, 64), normal(4, 64, seed=1) * np.float32(1e-7)])
    found = np.concatenate([expected[:4], 0 * expected[4:]])
    assert compare(expected, found).passed


def test_a_single_large_value_does_not_widen_the_tolerance():
    expected = normal(1000)
    expected[3] = 9000
    found = expected + np.float32(0.1) * (expected < 9000)
    assert not compare(expected, found).passed


def test_a_slice_small_in_one_sample_uses_the_output_scale():
    generator = np.random.default_rng(0)
    first, second = generator.standard_normal((2, 5, 32)).astype(np.float32)
    first[:, 7] = 0.01  # small in one sample only
    first[:, 8] = second[:, 8] = 0.01  # small in both samples
    apart = {"y": find_small_slices([first, second], noise=2**-18)}
    (alone,) = compare_outputs({"y": first}, {"y": first + np.float32(1e-5)})
    (of_all,) = compare_outputs({"y": first}, {"y": first + np.float32(1e-5)}, apart=apart)
    assert (alone.mismatched_count, of_all.mismatched_count) == (10, 5)
    assert of_all.worst_index[1] == 8


def test_a_slice_small_at_one_size_only_uses_the_output_scale():
    # Rows of a network with random weights are alike, so that a class is near 0 in each of them.
    one, three = normal(1, 32), normal(3, 32)
    three[:, 7] = 0.01
    one[:, 8] = three[:, 8] = 0.01
    apart = {"y": find_small_slices([one, three], noise=2**-18)}
    (of_all,) = compare_outputs({"y": three}, {"y": three + np.float32(1e-5)}, apart=apart)
    assert (of_all.mismatched_count, of_all.worst_index[1]) == (3, 8)


def test_pi_and_minus_pi_are_the_same_angle():
    half = np.array([np.pi, -np.pi, 3.1415, 1.0], np.float32)
    assert compare(half, half * np.float32([-1, -1, -1, 1])).passed
    assert not compare(half, half * np.float32([1, 1, 1, -1])).passed
    assert not compare(half, half * np.float32([-0.9997, 1, 1, 1])).passed
