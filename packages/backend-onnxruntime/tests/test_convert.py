"""The files in the work folder, in full and in half precision."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError, NotVerifiedError


@pytest.fixture
def weighted(tmp_path):
    """Write ``x + w`` to a folder, with its weights in the model's file or in another."""

    def weighted(location=None, folder="ir", name="net.onnx"):
        graph = onnx.parser.parse_graph(
            "g (float[n, 1024] x) => (float[n, 1024] y) { y = Add(x, w) }"
        )
        weights = np.arange(1024, dtype=np.float32)
        graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
        opsets = [onnx.helper.make_opsetid("", 21)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        if location:
            (path.parent / location).parent.mkdir(exist_ok=True)
            onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=0)
        else:
            onnx.save(model, path)
        return path

    return weighted


def check(wrapper):
    x = np.ones((2, 1024), np.float32)
    with wrapper:
        np.testing.assert_array_equal(wrapper({"x": x})["y"], x + np.arange(1024))


@pytest.mark.parametrize("location", [None, "net.onnx.data", "weights/w.bin"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_artifact_contains_the_files_of_the_model(
    backend, weighted, tmp_path, location, precision
):
    out = tmp_path / "out"
    params = {"work_dir": str(out), "file_name": "renamed", "precision": precision}
    written = backend.to_backend(weighted(location), **params)
    extra = [out / location] if location and precision == "fp32" else []
    assert written == (out / "renamed.onnx", *extra)
    check(backend.build_wrapper(**params))


def test_the_folder_of_the_model_may_be_the_work_folder(backend, weighted):
    path = weighted("w.bin", name="model.onnx")
    before = path.read_bytes()
    params = {"work_dir": str(path.parent)}
    assert backend.to_backend(path, **params) == (path, path.parent / "w.bin")
    assert path.read_bytes() == before
    check(backend.build_wrapper(**params))


def test_fp16_does_not_overwrite_its_source_model(backend, weighted):
    path = weighted(name="model.onnx")
    before = path.read_bytes()
    with pytest.raises(ConversionError) as raised:
        backend.to_backend(path, work_dir=str(path.parent), precision="fp16")
    assert str(raised.value) == (
        f"the file for precision fp16 would overwrite the model to convert, '{path}'"
    )
    assert raised.value.hint == "use another --work-dir or --file-name"
    assert path.read_bytes() == before


@pytest.mark.parametrize("keep_ir", [True, False])
def test_weights_of_the_deployment_are_on_the_disk_once(tmp_path, keep_ir):
    model = nn.Linear(3000, 3000)
    done = eb.deploy(
        model,
        torch.randn(1, 3000),
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        export={"keep_ir": keep_ir},
    )
    assert done.verdict == "verified"
    path = done.artifact.path
    main, data = ((path / f"model.onnx{end}").stat() for end in ("", ".data"))
    assert (main.st_nlink, data.st_nlink, data.st_mode) == (1, 1 + keep_ir, main.st_mode)


def test_weights_of_the_user_are_copied(weighted, tmp_path):
    path = weighted("w.bin")
    artifact = eb.convert(path, backend="onnxruntime", work_dir=tmp_path / "out")
    assert not (artifact.path / "w.bin").samefile(path.parent / "w.bin")


def test_weights_do_not_overwrite_the_model(backend, weighted, tmp_path):
    with pytest.raises(ConversionError, match=r"two files would be copied to .*model\.onnx"):
        backend.to_backend(weighted("model.onnx"), work_dir=str(tmp_path / "out"))


def test_a_model_that_cannot_be_loaded_is_not_published(tmp_path):
    graph = onnx.parser.parse_graph("g (float[3] x) => (float[3] y) { y = my.ops.Wibble(x) }")
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("my.ops", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, tmp_path / "custom.onnx")
    with pytest.raises(ConversionError, match=r"^ONNX Runtime cannot load 'model.onnx': .*Wibble"):
        eb.convert(tmp_path / "custom.onnx", backend="onnxruntime", work_dir=tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.SiLU())
        self.head = nn.Linear(16, 10)

    def forward(self, image):
        x = self.stem(image)
        x = x + self.block(x)
        x = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        scores = self.head(x.mean((2, 3)))
        return {"scores": scores, "label": scores.argmax(1)}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.norm = nn.LayerNorm(32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, tokens, mask):
        x = self.norm(self.embed(tokens))
        mixed, _ = self.attention(x, x, x, key_padding_mask=mask, need_weights=False)
        return self.mlp(x + mixed).softmax(-1)


MODELS = {
    "convolutions": (Convolutions, {"image": torch.randn(2, 3, 16, 16)}),
    "encoder": (
        Encoder,
        {"tokens": torch.randint(100, (2, 6)), "mask": torch.arange(6).repeat(2, 1) > 4},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_networks_verify_in_half_precision(name, tmp_path):
    torch.manual_seed(0)
    build, inputs = MODELS[name]
    done = eb.deploy(
        build().eval(),
        inputs,
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        params={"precision": "fp16"},
        dynamic={name: {0: "batch"} for name in inputs},
        export=eb.ExportOptions(exporter="dynamo"),
    )
    assert done.verdict == "verified"
    assert done.receipt.precision == "fp16"
    model = onnx.load(done.artifact.path / "model.onnx")
    assert any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in model.graph.initializer)
    with eb.load(done.artifact) as wrapper:
        assert [spec.dtype for spec in wrapper.outputs] == (
            ["float32", "int64"] if name == "convolutions" else ["float32"]
        )
        out = wrapper({key: torch.cat([value, value[:1]]) for key, value in inputs.items()})
    assert all(len(value) == 3 for value in out.values())


def test_a_half_precision_model_is_reported_as_fp16(tmp_path):
    model = nn.Linear(4, 4).half()
    done = eb.deploy(model, torch.ones(1, 4).half(), backend="onnxruntime", work_dir=tmp_path / "o")
    assert (done.verdict, done.receipt.precision) == ("verified", "fp16")
    assert done.artifact.outputs[0].dtype == "float16"


def test_weights_beyond_half_precision_fail_the_verdict(tmp_path):
    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.full((4,), 1e6))

        def forward(self, x):
            return x * self.scale

    with pytest.raises(NotVerifiedError):
        eb.deploy(
            Large(),
            torch.ones(1, 4),
            backend="onnxruntime",
            work_dir=tmp_path / "out",
            params={"precision": "fp16"},
        )
    assert not (tmp_path / "out").exists()


def test_transpose_and_matmul_in_half_precision_load(load):
    """Without its workaround this takes the process down: microsoft/onnxruntime#28392."""
    wrapper = load(
        "(float16[b, 6, 32] x, float16[32, 4] w) => (float16[6, b, 4] y)"
        " { t = Transpose<perm = [1, 0, 2]>(x)  y = MatMul(t, w) }"
    )
    x, w = np.ones((2, 6, 32), np.float16), np.ones((32, 4), np.float16)
    assert (wrapper({"x": x, "w": w})["y"] == 32).all()


@pytest.mark.parametrize(
    ("kept", "casts"),
    [
        ({}, 2),  # the input and the output
        ({"fp32_ops": ("Sqrt",)}, 4),  # there and back around it
        ({"fp32_nodes": ("second",)}, 4),
    ],
)
def test_excluded_operators_and_nodes_stay_in_fp32(backend, tmp_path, kept, casts):
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> three (float[2] x) => (float[2] y)'
        " { [first] a = Relu(x)  [second] b = Sqrt(a)  [third] y = Relu(b) }"
    )
    onnx.save(model, tmp_path / "three.onnx")
    (written,) = backend.to_backend(
        tmp_path / "three.onnx", work_dir=str(tmp_path / "out"), precision="fp16", **kept
    )
    assert [node.op_type for node in onnx.load(written).graph.node].count("Cast") == casts


def test_a_scatter_with_a_reduction_runs_in_half_precision(backend, write, tmp_path):
    path = write(
        "(float[4] x, int64[2, 1] i, float[2] u) => (float[4] y)"
        ' { y = ScatterND<reduction = "add">(x, i, u) }'
    )
    params = {"work_dir": str(tmp_path / "out"), "precision": "fp16"}
    backend.to_backend(path, **params)
    feed = {"x": np.zeros(4, np.float32), "i": np.array([[1], [1]]), "u": np.ones(2, np.float32)}
    with backend.build_wrapper(**params) as wrapper:
        assert wrapper(feed)["y"].tolist() == [0, 2, 0, 0]
