"""int8 by ONNX Runtime's quantiser, calibrated with a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError, InputError, ParamsError

if TYPE_CHECKING:
    from pathlib import Path

IMAGES = np.random.default_rng(0).random((24, 1, 3, 16, 16)).astype(np.float32)
ITEMS = [{"x": image} for image in IMAGES]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10)),
    )
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    eb.export(
        model.eval(),
        torch.from_numpy(IMAGES[0]),
        path=path,
        options=eb.ExportOptions(input_names=["x"]),
    )
    return path


def int8(net: Path, folder: Path, data: Any) -> eb.Artifact:
    params = {"precision": "int8"}
    return eb.convert(net, backend="onnxruntime", work_dir=folder, params=params, data=data)


@pytest.mark.slow
def test_convolutions_and_products_compute_in_int8(net: Path, tmp_path: Path) -> None:
    artifact = int8(net, tmp_path / "int8", ITEMS)
    eb.convert(net, backend="onnxruntime", work_dir=tmp_path / "fp32")
    model = onnx.load(artifact.path / "model.onnx")
    weights = {tensor.data_type for tensor in model.graph.initializer if len(tensor.dims) == 4}
    assert weights == {onnx.TensorProto.INT8}
    zeros = [tensor for tensor in model.graph.initializer if tensor.name.endswith("zero_point")]
    assert {tensor.data_type for tensor in zeros if not tensor.dims} == {onnx.TensorProto.UINT8}
    assert artifact.manifest.data.count == len(ITEMS)
    with eb.load(artifact) as quantised, eb.load(tmp_path / "fp32") as full:
        assert quantised.receipt.precision == "int8"
        (name,) = quantised.output_names
        pairs = [(quantised(item)[name], full(item)[name]) for item in ITEMS]
    noise = np.std([found - wanted for found, wanted in pairs])
    assert 0 < noise < 0.05 * np.std([wanted for _, wanted in pairs])


def test_int8_products_do_not_overflow(tmp_path: Path) -> None:
    # Bright images and equal weights: the sum of two products of full range exceeds 16 bits.
    # ONNX Runtime has no switch for the instruction set, but every set computes the same:
    # with weights up to 64, two products (2 * 255 * 64) fit into 16 bits.
    bright = [{"x": np.full((1, 8, 8, 8), 1 - 0.01 * place, "f4")} for place in range(8)]
    conv = nn.Conv2d(8, 4, 3)
    nn.init.constant_(conv.weight, 0.5)
    path = tmp_path / "bright.onnx"
    eb.export(
        conv,
        torch.from_numpy(bright[0]["x"]),
        path=path,
        options=eb.ExportOptions(input_names=["x"]),
    )
    artifact = int8(path, tmp_path / "out", bright)
    graph = onnx.load(artifact.path / "model.onnx").graph
    (weights,) = (onnx.numpy_helper.to_array(t) for t in graph.initializer if len(t.dims) == 4)
    assert np.abs(weights.astype(int)).max() == 64
    with eb.load(artifact) as wrapper:
        (found,) = wrapper(bright[0]).values()
    wanted = conv(torch.from_numpy(bright[0]["x"])).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=0.01)


def test_external_weights_are_quantised_like_embedded_weights(net: Path, tmp_path: Path) -> None:
    external = tmp_path / "external.onnx"
    onnx.save(
        onnx.load(net), external, save_as_external_data=True, location="w.bin", size_threshold=1000
    )
    with (
        eb.load(int8(external, tmp_path / "external", ITEMS)) as found,
        eb.load(int8(net, tmp_path / "inline", ITEMS)) as wanted,
    ):
        for item in ITEMS:
            np.testing.assert_equal(found(item), wanted(item))


def test_large_quantised_models_store_external_weights(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginebay_onnxruntime.quantize._MAX_BYTES_IN_ONE_FILE", 0)
    artifact = int8(net, tmp_path / "out", ITEMS)
    modes = {(artifact.path / name).stat().st_mode for name in ("model.onnx", "model.onnx.data")}
    assert len(modes) == 1  # who may read the model may read its weights
    with eb.load(artifact) as wrapper:
        assert wrapper.receipt.precision == "int8"


@pytest.mark.parametrize("count", [64, 65])
def test_ranges_cover_every_item(net: Path, tmp_path: Path, count: int) -> None:
    items = [{"x": IMAGES[place % len(IMAGES)]} for place in range(count)]
    items[0] = {"x": IMAGES[0] * np.float32(10)}
    artifact = int8(net, tmp_path / "int8", items)
    with eb.load(artifact) as wrapper:
        (found,) = wrapper(items[0]).values()
        (usual,) = wrapper(items[1]).values()
    assert np.abs(found).max() > 5 * np.abs(usual).max()


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "verified"), (0.5, "mismatched")])
def test_a_bad_calibration_is_not_verified(
    net: Path, tmp_path: Path, scale: float, verdict: str
) -> None:
    deployed = eb.deploy(
        str(net),
        {"x": torch.from_numpy(IMAGES[0])},
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        params={"precision": "int8"},
        data=[{"x": image * np.float32(scale)} for image in IMAGES],
        verify=eb.VerifyOptions(allow_mismatch=True),
    )
    assert deployed.verdict == verdict
    if verdict == "mismatched":
        assert "dB above noise" in deployed.verification.summary()
        assert (
            "calibrate with data like those that the engine will" in deployed.verification.summary()
        )
    assert eb.verify(deployed.artifact).verdict == verdict


@pytest.fixture(scope="module")
def sharp(net: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The net with a softmax whose best class is hundreds of times above the median."""
    model = onnx.load(net)
    (output,) = model.graph.output
    softmax = onnx.helper.make_node("Softmax", ["logits"], [output.name])
    scaled = onnx.helper.make_node("Mul", ["raw", "many"], ["logits"])
    raw = model.graph.node[-1]
    raw.output[0] = "raw"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(60), "many"))
    model.graph.node.extend([scaled, softmax])
    path = tmp_path_factory.mktemp("sharp") / "sharp.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("moved", [0, 1])
def test_a_classifier_with_a_softmax_is_judged_by_its_decisions(
    sharp: Path, tmp_path: Path, moved: int
) -> None:
    with eb.load(eb.convert(sharp, backend="onnxruntime", work_dir=tmp_path / "fp32")) as full:
        probabilities = [full({"x": image})[full.output_names[0]] for image in IMAGES]
    classes = [int(row.argmax()) + moved for row in probabilities]
    assert max(row.max() / np.median(row) for row in probabilities) > 100
    deployed = eb.deploy(
        str(sharp),
        {"x": torch.from_numpy(IMAGES[0])},
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        params={"precision": "int8"},
        data=list(zip(({"x": image} for image in IMAGES), classes, strict=True)),
    )
    assert deployed.verdict == "verified"
    right = 0 if moved else 24
    assert f"right on {right} of 24, model right on {right}" in deployed.verification.summary()
    assert eb.verify(deployed.artifact).signals == deployed.verification.signals


def test_constant_calibration_data_are_refused(net: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        int8(net, tmp_path / "out", [{"x": np.zeros_like(image)} for image in IMAGES])
    assert str(caught.value) == (
        "the list given as data cannot be used for calibration: every input is constant: 'x' is 0.0"
    )
    assert caught.value.hint == "pass data that resembles the inputs in production"
    int8(net, tmp_path / "out", [{"x": np.full_like(IMAGES[0], value)} for value in (0, 1)])


def test_int8_without_data_is_refused(net: Path, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="precision int8 requires calibration data") as caught:
        int8(net, tmp_path / "out", None)
    assert caught.value.hint.startswith("--data FILE.npz: numpy.savez")


def test_an_item_that_does_not_fit_is_named(net: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="item 1 of the list given as data: input 'x' has dtype"):
        int8(net, tmp_path / "out", [ITEMS[0], {"x": IMAGES[1].astype("f8")}])
    assert not (tmp_path / "out").exists()


ROWS = torch.from_numpy(IMAGES[:, 0])
PAIRS = torch.utils.data.TensorDataset(ROWS, torch.zeros(len(ROWS)))
FORMS = {
    "tensor": ROWS,
    "array": IMAGES[:, 0],
    "tensors": torch.utils.data.TensorDataset(ROWS),
    "pairs": PAIRS,
    "iterable": list(zip(ROWS, range(24), strict=True)),
    "loader": torch.utils.data.DataLoader(PAIRS, batch_size=7),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_data_produces_the_same_ranges(net: Path, tmp_path: Path, form: str) -> None:
    wanted = int8(net, tmp_path / "wanted", ITEMS)
    found = int8(net, tmp_path / "found", FORMS[form])
    assert found.manifest.data.count == len(ITEMS)
    assert (found.path / "model.onnx").read_bytes() == (wanted.path / "model.onnx").read_bytes()


def test_a_model_without_quantisable_nodes_is_refused(tmp_path: Path) -> None:
    eb.export(
        nn.Sigmoid(),
        torch.ones(1, 4),
        path=tmp_path / "sigmoid.onnx",
        options=eb.ExportOptions(input_names=["x"]),
    )
    with pytest.raises(
        ConversionError, match=r"'sigmoid\.onnx' has no nodes to quantise"
    ) as caught:
        int8(tmp_path / "sigmoid.onnx", tmp_path / "out", [{"x": np.eye(1, 4, dtype=np.float32)}])
    assert caught.value.hint == "--precision fp16"
