"""From every IR to OpenVINO's files, with the model's names, order, shapes and dtypes."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import openvino
import pytest
import torch

import enginebay as eb
from enginebay.errors import ConversionError, InputError

#: Each IR, and the suffix by which `eb.export` knows it.
KINDS = {"onnx": ".onnx", "torchscript": ".pt", "exported_program": ".pt2"}
MATMUL = (
    "(float[n, 3] x) => (float[n, 3] y) <float[3, 3] w = {0.1, 2, 3, 4, 5, 6, 7, 8, 0.3}>"
    " { y = MatMul(x, w) }"
)


class Many(torch.nn.Module):
    """Several dtypes, an unused input, nested outputs, and an output that is an input."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, mask, unused, scale):
        y = self.linear(x) * mask.unsqueeze(-1)
        return {
            "pair": (y * scale, [y - 3]),
            "y": y,
            "x_back": x,
            "ones": torch.ones(2, dtype=torch.int64),
            "flag": mask > 0,
            "sum": y.sum(),
        }


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [leaf for nested in values for leaf in leaves(nested)]


def inputs_of(size):
    return (
        torch.linspace(-1, 1, size * 4).reshape(size, 4),
        torch.arange(size) % 2,
        torch.zeros(3, dtype=torch.bool),
        torch.tensor(2.0),
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(2)
def test_names_order_shapes_and_dtypes_match_the_model(tmp_path, kind, dynamic):
    model = Many().eval()
    shapes = {"x": {0: "batch"}, "mask": {0: "batch"}} if dynamic else None
    path = tmp_path / f"model{KINDS[kind]}"
    ir = eb.export(
        model, inputs_of(2), path=path, dynamic=shapes, options=eb.ExportOptions(ir=kind)
    )
    eb.convert(ir, backend="openvino", work_dir=tmp_path / "out")
    names = ("pair.0", "pair.1.0", "y", "x_back", "ones", "flag", "sum")
    with eb.load(tmp_path / "out") as wrapper:
        assert wrapper.input_names == ("x", "mask", "unused", "scale")
        assert wrapper.output_names == names
        assert wrapper.compiled.inputs[0].partial_shape.is_static == (not dynamic)
        for size in (2, 5) if dynamic else (2,):
            given = inputs_of(size)
            found = wrapper(dict(zip(wrapper.input_names, given, strict=True)))
            for output, wanted in zip(found.values(), leaves(model(*given)), strict=True):
                assert output.dtype == wanted.dtype
                torch.testing.assert_close(output, wanted.detach(), rtol=1e-5, atol=1e-5)
    # Other readers of the files find the same names.
    network = openvino.Core().read_model(tmp_path / "out" / "model.xml")
    assert [port.any_name for port in network.inputs[1:]] == ["mask", "unused", "scale"]
    assert [port.any_name for port in network.outputs] == list(names)


@pytest.mark.parametrize("kind", KINDS)
def test_deploy_verifies_every_ir(tmp_path, kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)
    )
    deployed = eb.deploy(
        model.eval(),
        torch.randn(1, 3, 8, 8),
        backend="openvino",
        work_dir=tmp_path / "o",
        export=eb.ExportOptions(ir=kind),
    )
    assert deployed.verdict == "verified"
    assert deployed.receipt.precision == "fp32"
    assert [file.as_posix() for file in deployed.artifact.files] == ["model.xml", "model.bin"]


def test_the_next_ir_is_used_if_a_conversion_fails(tmp_path):
    model = torch.nn.EmbeddingBag(10, 3).eval()
    deployed = eb.deploy(
        model, torch.tensor([[1, 2], [3, 4]]), backend="openvino", work_dir=tmp_path / "out"
    )
    assert deployed.verdict == "verified"
    if deployed.artifact.manifest.ir.kind == "torchscript":
        assert deployed.notes[0].startswith("onnx was not used: OpenVINO cannot convert")


def test_a_torchscript_file_without_shapes_accepts_any_size(tmp_path):
    model = torch.nn.Conv2d(3, 4, 3).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript itself is deprecated
        torch.jit.save(torch.jit.trace(model, torch.ones(1, 3, 8, 8)), tmp_path / "foreign.pt")
    eb.convert(tmp_path / "foreign.pt", backend="openvino", work_dir=tmp_path / "out")
    with eb.load(tmp_path / "out") as wrapper:
        (name,) = wrapper.input_names
        for size in (8, 12):
            x = torch.randn(2, 3, size, size)
            (y,) = wrapper({name: x}).values()
            torch.testing.assert_close(y, model(x).detach(), rtol=1e-4, atol=1e-5)


def test_weights_are_exact_unless_fp16_is_requested(write, tmp_path):
    x = np.eye(3, dtype=np.float32)
    weights = np.array([0.1, 2, 3, 4, 5, 6, 7, 8, 0.3], np.float32).reshape(3, 3)
    model = write(MATMUL)
    eb.convert(model, backend="openvino", work_dir=tmp_path / "full")
    eb.convert(model, backend="openvino", work_dir=tmp_path / "half", params={"fp16_weights": True})
    with eb.load(tmp_path / "full") as full, eb.load(tmp_path / "half") as half:
        np.testing.assert_array_equal(full({"x": x})["y"], weights)
        np.testing.assert_array_equal(half({"x": x})["y"], weights.astype(np.float16))
        assert full.receipt.precision == "fp32"
        assert half.receipt.precision == "fp16"
        assert half.receipt.details["weights"] == "f16"
        assert half.receipt.details["inference_precision"] == "f32"
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("full", "half")]
    assert sizes[1] * 2 == sizes[0]


def test_a_network_without_weights_has_no_bin_file(write, tmp_path):
    model = write("(float[n] x) => (float[n] y) { y = Relu(x) }")
    artifact = eb.convert(model, backend="openvino", work_dir=tmp_path / "out")
    assert [file.as_posix() for file in artifact.files] == ["model.xml"]
    assert not (tmp_path / "out" / "model.bin").exists()


def test_external_weights_are_stored_in_the_artifact(write, tmp_path):
    model = onnx.load(write(MATMUL))
    (weights,) = model.graph.initializer
    weights.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weights), "w"))
    path = tmp_path / "big.onnx"
    onnx.save(model, path, save_as_external_data=True, location="big.data", size_threshold=0)
    eb.convert(path, backend="openvino", work_dir=tmp_path / "out")
    path.unlink()
    (tmp_path / "big.data").unlink()
    with eb.load(tmp_path / "out") as wrapper:
        assert wrapper({"x": np.eye(3, dtype=np.float32)})["y"][0, 0] == np.float32(0.1)


def test_an_artifact_can_be_moved_and_named(write, tmp_path):
    params = {"file_name": "net"}
    eb.convert(write(MATMUL), backend="openvino", work_dir=tmp_path / "a", params=params)
    (tmp_path / "a").rename(tmp_path / "b")
    assert {file.name for file in (tmp_path / "b").iterdir()} >= {"net.xml", "net.bin"}
    with eb.load(tmp_path / "b") as wrapper:
        assert wrapper.input_names == ("x",)


def test_the_same_model_produces_the_same_files(write, tmp_path):
    for name in "ab":
        eb.convert(write(MATMUL), backend="openvino", work_dir=tmp_path / name)
    for file in ("model.xml", "model.bin"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_an_unknown_operator_is_refused(write, tmp_path):
    model = write("(float[n] x) => (float[n] y) { y = mine.Frob(x) }", imports='"": 20, "mine": 1')
    with pytest.raises(ConversionError) as raised:
        eb.convert(model, backend="openvino", work_dir=tmp_path / "out")
    assert str(raised.value).startswith("OpenVINO cannot convert 'model.onnx': ")
    assert "No conversion rule found for operations: mine.Frob" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_local_functions_are_put_in_place_of_their_calls(write, tmp_path):
    call = "(float[2,4] x) => (float[2,4] y) { y = own.leaky(x) }"
    head = '<domain: "own", opset_import: ["": 21]> leaky<slope: float = 0.3>'
    body = "(a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }"
    model = write(call + head + body, imports='"": 21, "own": 1')
    x = {"x": np.float32([[-1, 2, -3, 4]] * 2)}
    done = eb.deploy(model, x, backend="openvino", work_dir=tmp_path / "out")
    assert done.verdict == "verified"
    with eb.load(done.artifact) as wrapper:
        np.testing.assert_allclose(wrapper(x)["y"][0], [-0.3, 2, -0.9, 4], rtol=1e-6)


def test_an_input_that_is_not_a_tensor_is_refused(write, tmp_path):
    model = write("(seq(float[2]) s) => (int64[] n) { n = SequenceLength(s) }")
    with pytest.raises(
        InputError, match=r"input 's' of 'model\.onnx' is a sequence, expected a tensor"
    ):
        eb.convert(model, backend="openvino", work_dir=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_changed_output_dtype_is_refused(tmp_path):
    class Count(torch.nn.Module):
        def forward(self, x):
            return (x > 0).cumsum(0)  # OpenVINO reads it from TorchScript as a sum of bools

    ir = eb.export(
        Count(),
        torch.ones(3),
        path=tmp_path / "count.pt",
        options=eb.ExportOptions(ir="torchscript"),
    )
    with pytest.raises(ConversionError) as raised:
        eb.convert(ir, backend="openvino", work_dir=tmp_path / "out")
    assert str(raised.value) == (
        "OpenVINO changed the dtype of output 'output' of 'count.pt': expected int64, found bool"
    )


def test_a_lost_input_is_refused(tmp_path):
    class Indices(torch.nn.Module):
        def forward(self, x):
            return torch.arange(x.shape[0])

    ir = eb.export(
        Indices(),
        torch.ones(3),
        path=tmp_path / "i.pt2",
        options=eb.ExportOptions(ir="exported_program"),
    )
    with pytest.raises(ConversionError) as raised:
        eb.convert(ir, backend="openvino", work_dir=tmp_path / "out")
    assert (
        str(raised.value)
        == "OpenVINO reads a wrong number of inputs from 'i.pt2': expected 1 (x), found 0"
    )


def test_files_that_are_not_a_network_are_refused(backend, tmp_path):
    (tmp_path / "model.xml").write_text("<net")
    with pytest.raises(ConversionError, match=r"^OpenVINO cannot load 'model\.xml': Unable to re"):
        backend.build_wrapper(work_dir=str(tmp_path))
