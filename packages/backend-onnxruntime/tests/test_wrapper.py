"""ONNX Runtime's part of the wrapper; the conformance kit tests the contract."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from enginebay.errors import ConversionError, InferenceError, InputError

RELU = "(float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }"


def test_a_model_without_inputs_runs(load):
    wrapper = load("() => (float[2] y) { c = Constant<value = float[2] {1, 2}>()  y = Neg(c) }")
    first = wrapper({})["y"]
    first[:] = 9
    assert wrapper({})["y"].tolist() == [-1, -2]
    with pytest.raises(InputError, match="unknown input 'x': the model takes no input"):
        wrapper({"x": np.ones(2)})


def test_unnamed_dimensions_are_independent(backend, write):
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


def test_an_engine_error_names_the_inputs(load):
    wrapper = load("(float[4] x, int64[k] i) => (float[k] y) { y = Gather(x, i) }")
    with pytest.raises(InferenceError) as raised:
        wrapper({"x": np.ones(4, np.float32), "i": np.array([9])})
    message = str(raised.value)
    assert message.startswith("onnxruntime ")
    assert " failed on x float32(4,), i int64(1,): [ONNXRuntimeError]" in message
    assert wrapper({"x": np.ones(4, np.float32), "i": np.array([3])})["y"].tolist() == [1]


def test_initializers_listed_as_inputs_are_optional(backend, write):
    import onnx

    model = write("(float[2] x) => (float[2] y) <float[2] c = {1, 2}> { y = Add(x, c) }")
    old = onnx.load(model)
    old.graph.input.append(onnx.helper.make_tensor_value_info("c", 1, [2]))
    onnx.save(old, model)
    with backend.build_wrapper(work_dir=str(model.parent)) as wrapper:
        assert wrapper.input_names == ("x",)
        assert wrapper({"x": np.zeros(2, np.float32)})["y"].tolist() == [1, 2]


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x0a"])
def test_a_file_that_is_not_a_model_is_refused(backend, tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ConversionError, match=r"^ONNX Runtime cannot load 'model\.onnx': "):
        backend.build_wrapper(work_dir=str(tmp_path))
