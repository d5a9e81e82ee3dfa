"""The path for tensors that are already on the device: a GPU in ``nox -s gpu``, else the CPU."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from enginebay.errors import InferenceError, InputError

TWO = (
    "(float[a, b] x, float[a, b] z) => (float[a, b] sum, float[b, a] turned)"
    " { sum = Add(x, z)  turned = Transpose(x) }"
)
DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "bool": torch.bool,
    "int8": torch.int8,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint64": torch.uint64,
}


DEVICE = "cuda" if os.environ.get("ENGINEBAY_GPU") == "onnxruntime" else "cpu"


@pytest.fixture(autouse=True)
def _tensors_on_the_device():
    with torch.device(DEVICE):
        yield


def bound(wrapper):
    """The same session, for tensors that are already where it runs."""
    return type(wrapper)(
        wrapper.session,
        receipt=wrapper.receipt,
        inputs=wrapper.inputs,
        outputs=wrapper.outputs,
        native_device=DEVICE,
    )


@pytest.fixture
def load_bound(load):
    """Load a model in ONNX's text format for tensors that are on the device."""
    return lambda text: bound(load(text, device=DEVICE))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    import onnx

    import enginebay as eb

    folder = tmp_path_factory.mktemp("two")
    header = '<ir_version: 10, opset_import: ["": 21]> graph '
    onnx.save(onnx.parser.parse_model(header + TWO), folder / "model.onnx")
    with eb.get_backend("onnxruntime").build_wrapper(
        work_dir=str(folder), device=DEVICE
    ) as wrapper:
        yield bound(wrapper)


@given(shape=st.tuples(st.integers(0, 5), st.integers(0, 5)), turned=st.booleans())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_strided_inputs_of_any_size_match_torch(two, shape, turned):
    x = torch.randn(9, 9)[: shape[0], : shape[1]]
    z = torch.randn(18, 9)[::2][: shape[0], : shape[1]]
    if turned:
        x, z = x.T, z.T

    out = two({"x": x, "z": z})
    assert list(out) == ["sum", "turned"]
    assert torch.equal(out["sum"], x + z)
    assert torch.equal(out["turned"], x.T)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("onnx_name", DTYPES)
def test_every_dtype_is_bound(load_bound, onnx_name):
    text = "(T[n, 3] x) => (T[m, 3] y) { y = Concat<axis = 0>(x, x) }"
    wrapper = load_bound(text.replace("T", onnx_name))
    x = torch.tensor([[0, 1, 100], [7, 0, 1]]).to(DTYPES[onnx_name])
    y = wrapper({"x": x})["y"]
    assert y.dtype == x.dtype
    assert y.tolist() == x.tolist() * 2


def test_returned_outputs_never_change(two):
    x = torch.ones(3, 4)
    first = two({"x": x, "z": x})
    for scale in range(5):
        two({"x": x * scale, "z": x})
    assert torch.equal(first["sum"], x + x)
    assert torch.equal(first["turned"], x.T)


def test_outputs_outlive_the_wrapper(load):
    wrapper = load("(float[n] x) => (float[n] y) { y = Neg(x) }", device=DEVICE)
    y = bound(wrapper)({"x": torch.ones(1000)})["y"]
    wrapper.close()
    assert torch.equal(y, -torch.ones(1000))


def test_an_output_that_is_an_input_is_a_copy(load_bound):
    wrapper = load_bound("(float[n] x) => (float[n] x, float[n] y) { y = Identity(x) }")
    x = torch.ones(4)
    out = wrapper({"x": x})
    x[:] = 7
    assert out["x"].tolist() == out["y"].tolist() == [1, 1, 1, 1]


def test_scalars_with_gradients_are_accepted(load_bound):
    wrapper = load_bound("(float[] x) => (float[] y) { y = Neg(x) }")
    y = wrapper({"x": torch.tensor(2.0, requires_grad=True)})["y"]
    assert y.shape == ()
    assert not y.requires_grad
    assert y.item() == -2


def test_numpy_arrays_are_accepted_with_and_without_tensors(two):
    x = torch.ones(2, 2)
    assert two({"x": x, "z": np.ones((2, 2), np.float32)})["sum"].tolist() == [[2, 2], [2, 2]]
    alone = two({"x": x.cpu().numpy(), "z": x.cpu().numpy()})["sum"]
    assert isinstance(alone, np.ndarray)


def test_device_tensors_raise_the_errors_of_host_arrays(load_bound):
    wrapper = load_bound("(float[4] x, int64[k] i) => (float[k] y) { y = Gather(x, i) }")
    with pytest.raises(InputError, match=r"input 'x' has dtype torch\.float64, expected"):
        wrapper({"x": torch.ones(4, dtype=torch.float64), "i": torch.tensor([0])})
    if DEVICE == "cuda":
        return  # its kernels do not check indices
    with pytest.raises(InferenceError, match=r"failed on x torch\.float32\(4,\), i torch\.int64"):
        wrapper({"x": torch.ones(4), "i": torch.tensor([9])})
