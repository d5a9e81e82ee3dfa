"""The wrapper contract on real sessions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginebay.errors import ConversionError, InferenceError, InputError, UsageError

TWO = "(float[a, b] x, float[a, b] z) => (float[a, b] sum, float[b, a] turned)"
TWO_OUTPUTS = TWO + " { sum = Add(x, z)  turned = Transpose(x) }"
RELU = "(float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }"


@given(
    rows=st.integers(0, 5),
    columns=st.integers(0, 5),
    steps=st.tuples(*[st.sampled_from([-3, -1, 1, 2])] * 2),
    turned=st.booleans(),
    as_torch=st.booleans(),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_strides_and_sizes(shared, rows, columns, steps, turned, as_torch):
    x = np.arange(rows * columns * 9, dtype=np.float32).reshape(rows * 3, columns * 3)
    x = x[:: steps[0], :: steps[1]]
    x = x.T if turned else x
    z = np.broadcast_to(np.float32(0.5), x.shape)
    inputs = {"x": x, "z": z}
    if as_torch:
        inputs = {
            name: torch.tensor(value.copy()).T.contiguous().T for name, value in inputs.items()
        }
    out = shared(inputs)
    assert all(isinstance(value, torch.Tensor) == as_torch for value in out.values())
    np.testing.assert_array_equal(np.asarray(out["sum"]), x + z)
    np.testing.assert_array_equal(np.asarray(out["turned"]), x.T)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    import onnx

    import enginebay as eb

    folder = tmp_path_factory.mktemp("shared")
    header = '<ir_version: 10, opset_import: ["": 21]> graph '
    onnx.save(onnx.parser.parse_model(header + TWO_OUTPUTS), folder / "model.onnx")
    with eb.get_backend("onnxruntime").build_wrapper(work_dir=str(folder)) as wrapper:
        yield wrapper


def test_names_and_order_are_the_models(load):
    wrapper = load(TWO_OUTPUTS)
    assert wrapper.input_names == ("x", "z")
    assert wrapper.output_names == ("sum", "turned")
    ones = np.ones((2, 3), np.float32)
    assert list(wrapper({"z": ones, "x": ones})) == ["sum", "turned"]


def test_scalars_in_and_out(load):
    wrapper = load("(float[] x) => (float[] y) { y = Neg(x) }")
    for given_ in (np.array(2, np.float32), np.float32(2), torch.tensor(2.0)):
        y = wrapper({"x": given_})["y"]
        assert isinstance(y, torch.Tensor if isinstance(given_, torch.Tensor) else np.ndarray)
        assert tuple(y.shape) == ()
        assert float(y) == -2


def test_a_model_without_inputs(load):
    wrapper = load("() => (float[2] y) { c = Constant<value = float[2] {1, 2}>()  y = Neg(c) }")
    first = wrapper({})["y"]
    first[:] = 9
    assert wrapper({})["y"].tolist() == [-1, -2]
    with pytest.raises(InputError, match="unknown input 'x': the model takes no input"):
        wrapper({"x": np.ones(2)})


def test_dimensions_without_a_name_are_bound_to_nothing(backend, write):
    model = write(
        "(float[?, 3] x, float[?, 3] z) => (float[?, 3] y) { y = Concat<axis = 0>(x, z) }"
    )
    with backend.build_wrapper(work_dir=str(model.parent)) as wrapper:
        assert [spec.dims for spec in wrapper.inputs] == [("x_0", 3), ("z_0", 3)]
        y = wrapper({"x": np.ones((2, 3), np.float32), "z": np.ones((5, 3), np.float32)})["y"]
    assert y.shape == (7, 3)


def test_an_unknown_rank_is_left_to_the_engine(backend, write):
    import onnx

    model = write(RELU)
    loose = onnx.load(model)
    for value in (*loose.graph.input, *loose.graph.output):
        value.type.tensor_type.ClearField("shape")
    onnx.save(loose, model)
    with backend.build_wrapper(work_dir=str(model.parent)) as wrapper:
        assert wrapper.inputs[0].dims is None
        for shape in [(), (4,), (2, 1, 3)]:
            assert wrapper({"x": np.ones(shape, np.float32)})["y"].shape == shape


def test_an_output_that_is_an_input_is_a_copy(load):
    wrapper = load(
        "(float[n] x) => (float[n] x, float[n] y, float[n] z) { y = Relu(x) z = Identity(y)}"
    )
    x = np.ones(4, np.float32)
    out = wrapper({"x": x})
    assert not any(np.shares_memory(value, x) for value in out.values())
    assert not np.shares_memory(out["y"], out["z"])
    t = torch.ones(4)
    out = wrapper({"x": t})
    t[:] = 5
    assert out["x"].tolist() == [1, 1, 1, 1]


def test_what_was_returned_never_changes_and_inputs_never_do(load):
    wrapper = load(TWO_OUTPUTS)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    kept = x.copy()
    first = wrapper({"x": x, "z": x})
    copies = {name: value.copy() for name, value in first.items()}
    for scale in range(5):
        wrapper({"x": x * scale, "z": x})
    for name, value in first.items():
        np.testing.assert_array_equal(value, copies[name])
        value[:] = -1  # writable, and nobody else's
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(wrapper({"x": x, "z": x})["sum"], copies["sum"])


def test_a_read_only_input(load):
    x = np.ones((2, 3), np.float32)
    x.flags.writeable = False
    assert load(RELU)({"x": x})["y"].tolist() == [[1] * 3] * 2


def test_two_wrappers_at_once(load):
    relu = load(RELU)
    other = load("(float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }")
    x = np.ones((1, 3), np.float32)
    for _ in range(3):
        assert relu({"x": x})["y"].tolist() == [[1, 1, 1]]
        assert other({"x": x})["y"].tolist() == [[-1, -1, -1]]
    other.close()
    assert relu({"x": x})["y"].tolist() == [[1, 1, 1]]


def test_calls_from_many_threads(load):
    wrapper = load("(float[n, n] x) => (float[n, n] y) { y = MatMul(x, x) }")

    def call(number):
        x = np.full((number % 7 + 1,) * 2, number, np.float32)
        return np.array_equal(wrapper({"x": x})["y"], x @ x)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(200)))


def test_the_engines_own_error_names_what_was_given(load):
    wrapper = load("(float[4] x, int64[k] i) => (float[k] y) { y = Gather(x, i) }")
    with pytest.raises(InferenceError) as raised:
        wrapper({"x": np.ones(4, np.float32), "i": np.array([9])})
    message = str(raised.value)
    assert message.startswith("onnxruntime ")
    assert " failed on x float32(4,), i int64(1,): [ONNXRuntimeError]" in message
    assert wrapper({"x": np.ones(4, np.float32), "i": np.array([3])})["y"].tolist() == [1]


def test_closing_twice_and_calling_afterwards(load):
    wrapper = load(RELU)
    wrapper.close()
    wrapper.close()
    with pytest.raises(UsageError, match="this wrapper is closed"):
        wrapper({"x": np.ones((1, 3), np.float32)})
    assert wrapper.receipt.provider == "CPUExecutionProvider"


def test_an_initializer_that_is_listed_as_an_input_need_not_be_given(backend, write):
    import onnx

    model = write("(float[2] x) => (float[2] y) <float[2] c = {1, 2}> { y = Add(x, c) }")
    old = onnx.load(model)
    old.graph.input.append(onnx.helper.make_tensor_value_info("c", 1, [2]))
    onnx.save(old, model)
    with backend.build_wrapper(work_dir=str(model.parent)) as wrapper:
        assert wrapper.input_names == ("x",)
        assert wrapper({"x": np.zeros(2, np.float32)})["y"].tolist() == [1, 2]


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x0a"])
def test_a_file_that_is_no_model(backend, tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ConversionError, match=r"^ONNX Runtime cannot load 'model\.onnx': "):
        backend.build_wrapper(work_dir=str(tmp_path))
