"""Comparisons of torch tensors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from enginebay.verification import compare_outputs

torch = pytest.importorskip("torch", reason="torch is an extra of core")


def compare(expected, found, **options):
    (result,) = compare_outputs({"y": expected}, {"y": found}, **options)
    return result


@pytest.mark.process
def test_comparing_arrays_does_not_import_torch():
    program = (
        "import sys, numpy as np\n"
        "from enginebay.verification import compare_outputs\n"
        "assert compare_outputs({'y': np.ones(3)}, {'y': np.ones(3)})[0].passed\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"],
)
def test_tensors_of_every_dtype_are_compared(dtype):
    values = torch.tensor([[0, 1], [1, 0]]).to(getattr(torch, dtype))
    result = compare(values, values.clone())
    assert (result.passed, result.dtype, result.shape) == (True, dtype, (2, 2))
    assert not compare(values, torch.ones_like(values)).passed


def test_a_tensor_and_an_array_are_compared():
    values = torch.tensor([1.0, 2.0], requires_grad=True) * 2
    assert compare(values, np.float32([2, 4])).passed
    assert compare(values, torch.tensor([2.0, 4.0])).passed


def test_bfloat16_is_compared_at_its_own_tolerance():
    half, full = torch.ones(2, dtype=torch.bfloat16), torch.ones(2)
    assert compare(half, full).reason == "its dtype differs: expected bfloat16, found float32"
    assert compare(half, half * 1.05).passed
    assert not compare(half, half * 1.5).passed
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="only there with onnx")
    array = np.ones(2, ml_dtypes.bfloat16)
    assert compare(half, array).passed
    assert compare(array, array * np.array(1.5, array.dtype)).mismatched_count == 2
    array[0] = float("nan")
    assert compare(array, array.copy()).reason == "1 of 2 elements are NaN in both"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits_are_compared(dtype):
    values = torch.tensor([1.0, 2.0, -4.0]).to(getattr(torch, dtype))
    assert compare(values, values.clone()).dtype == dtype
    assert compare(values, values.clone()).passed
    assert not compare(values, torch.zeros(3).to(values.dtype)).passed


def test_lazy_views_are_compared_by_value():
    values = torch.tensor([1 + 2j, 3 - 1j])
    assert compare(values.conj(), values.numpy().conj()).passed
    assert compare(values.imag, np.float32([2, -1])).passed
    assert compare(values.conj().imag, np.float32([-2, 1])).passed


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_half_complex_numbers_keep_their_imaginary_part():
    half = torch.tensor([1 + 2j, 3 - 1j]).to(torch.complex32)
    assert compare(half, half.clone()).passed
    assert not compare(half, half.conj()).passed


def test_strided_tensors_are_compared_by_value():
    values = torch.arange(24.0).reshape(2, 3, 4)
    assert compare(values.permute(2, 0, 1), values.permute(2, 0, 1).contiguous()).passed
    assert not compare(values.flip(0), values).passed
