"""int8 with NNCF, for real where it is installed."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay.environment import install_command
from enginebay.errors import InputError, MissingDependencyError, ParamsError

HAS_NNCF = importlib.util.find_spec("nncf") is not None
nncf = pytest.mark.skipif(not HAS_NNCF, reason="nncf is not installed")
CONV = (
    "(float[1, 3, 16, 16] x) => (float[1, 8, 14, 14] y) <float[8, 3, 3, 3] w = {W}>"
    " { y = Conv(x, w) }"
)


@pytest.fixture(scope="module")
def model(write):
    weights = np.random.default_rng(0).standard_normal(216)
    return write(CONV.replace("W", ", ".join(f"{value:.6f}" for value in weights)))


@pytest.fixture
def recorded(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "calibration.npz"
    np.savez(path, x=rng.standard_normal((12, 1, 3, 16, 16)).astype(np.float32))
    return path


def int8(model, folder, data):
    params = {"precision": "int8"}
    return eb.convert(model, backend="openvino", work_dir=folder, params=params, data=data)


@nncf
def test_int8_layers_compute_in_int8(model, recorded, tmp_path, capfd):
    int8(model, tmp_path / "int8", recorded)
    assert capfd.readouterr().out == ""  # standard output belongs to the caller's data
    eb.convert(model, backend="openvino", work_dir=tmp_path / "fp32")
    recorded.unlink()  # it is not needed again
    x = np.random.default_rng(2).standard_normal((1, 3, 16, 16)).astype(np.float32)
    with eb.load(tmp_path / "int8") as quantised, eb.load(tmp_path / "fp32") as full:
        found, wanted = quantised({"x": x})["y"], full({"x": x})["y"]
        assert quantised.output_names == ("y",)
        assert quantised.receipt.precision == "int8"
        assert quantised.receipt.fallbacks == ()
        assert quantised.receipt.details["layers"] in ("1 i8", "1 u8")
    scale = np.abs(wanted).max()
    assert 1e-4 * scale < np.abs(found - wanted).max() < 0.05 * scale


@nncf
@pytest.mark.parametrize("instructions", ["AVX2", "DEFAULT"])
def test_int8_products_do_not_overflow_on_any_processor(write, tmp_path, run_with, instructions):
    # Two products of full range exceed 16 bits; NNCF reduces the range of the first layer only.
    # On a processor with VNNI or AMX both are in one kernel, which the receipt has to look into.
    twice = write(
        "(float[4, 16] x) => (float[4, 16] y) <float[16, 16] w = {W}>"
        " { h = MatMul(x, w) y = MatMul(h, w) }".replace("W", ", ".join(["0.0625"] * 256))
    )
    bright = [{"x": np.full((4, 16), 1 - 0.01 * place, np.float32)} for place in range(8)]
    int8(twice, tmp_path / "out", bright)
    x = np.repeat(np.float32([[1], [0.98], [0.95], [0.93]]), 16, axis=1)
    receipt, outputs = run_with(instructions, tmp_path / "out", x=x)
    assert receipt["precision"] == "int8"
    assert receipt["fallbacks"] == []
    assert receipt["details"]["layers"] in ("2 i8", "2 u8")
    np.testing.assert_allclose(outputs["y"], x, rtol=0.02)


@nncf
def test_fused_layers_are_verified_as_int8(tmp_path):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)]
    deployed = eb.deploy(
        torch.nn.Sequential(*layers).eval(),
        torch.randn(4, 32),
        backend="openvino",
        work_dir=tmp_path / "out",
        params={"precision": "int8"},
        data=list(np.random.default_rng(0).standard_normal((16, 4, 32)).astype(np.float32)),
    )
    assert (deployed.verdict, deployed.verification.precision) == ("verified", "int8")


@nncf
def test_int8_without_int8_layers_raises_a_warning(tmp_path):
    # OpenVINO has no 8-bit product of two tensors that are both unsigned: this attention is fp32.
    class Attention(torch.nn.Module):
        def forward(self, q, k, v):
            return (q @ k.transpose(-1, -2)).softmax(-1) @ v

    shape = (1, 4, 16, 8)
    rng = np.random.default_rng(0)
    data = [{name: rng.random(shape, np.float32) for name in "qkv"} for _ in range(4)]
    with pytest.warns(eb.VerdictWarning, match="no layer computes in int8 on") as caught:
        deployed = eb.deploy(
            Attention(),
            tuple(torch.rand(shape) for _ in "qkv"),
            backend="openvino",
            work_dir=tmp_path / "out",
            params={"precision": "int8"},
            data=data,
            verify=eb.VerifyOptions(allow_mismatch=True),
        )
    (text,) = deployed.verification.fallbacks
    assert str(caught[0].message) == text
    assert deployed.receipt.device_name in text
    assert deployed.receipt.precision == "fp32"
    assert text in deployed.verification.summary()


@nncf
def test_ranges_cover_every_item(model, tmp_path):
    items = np.random.default_rng(1).standard_normal((12, 1, 3, 16, 16)).astype(np.float32)
    items[5] *= 4
    int8(model, tmp_path / "int8", [{"x": item} for item in items])
    eb.convert(model, backend="openvino", work_dir=tmp_path / "fp32")
    with eb.load(tmp_path / "int8") as quantised, eb.load(tmp_path / "fp32") as full:
        found, wanted = quantised({"x": items[5]})["y"], full({"x": items[5]})["y"]
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


@nncf
def test_deploy_verifies_int8_with_the_samples_of_an_artifact(tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
    x = torch.randn(1, 3, 16, 16)
    eb.deploy(
        net,
        x,
        backend="openvino",
        work_dir=tmp_path / "fp32",
        export=eb.ExportOptions(ir="torchscript"),
    )
    deployed = eb.deploy(
        net,
        x,
        backend="openvino",
        work_dir=tmp_path / "int8",
        params={"precision": "int8"},
        data=tmp_path / "fp32" / "samples.npz",
        export=eb.ExportOptions(ir="torchscript"),
    )
    assert deployed.verdict == "verified"
    assert deployed.artifact.manifest.data.count == 1
    assert deployed.verification.precision == "int8"


@nncf
def test_a_network_without_quantisable_layers_reports_a_fallback(write, tmp_path):
    model = write("(float[n] x) => (float[n] y) { y = Relu(x) }")
    np.savez(tmp_path / "c.npz", x=np.eye(2, 4, dtype=np.float32))
    int8(model, tmp_path / "out", tmp_path / "c.npz")
    with eb.load(tmp_path / "out") as wrapper:
        assert wrapper.receipt.precision == "fp32"
        (text,) = wrapper.receipt.fallbacks
        assert text == (
            "precision int8 was requested, but no layer computes in int8 on "
            f"{wrapper.receipt.device_name}; int8 is less exact and not faster on this device: use "
            "fp32, fp16 or bf16"
        )


def test_a_quantised_onnx_file_is_reported_as_int8(load):
    wrapper = load(
        "(float[1, 3, 16, 16] x) => (float[1, 8, 14, 14] y)"
        f" <int8[8, 3, 3, 3] w = {{{', '.join(str(n % 100 - 50) for n in range(216))}}},"
        " float s = {0.02}, uint8 z = {128}, int8 z0 = {0}>"
        " { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)"
        " v = DequantizeLinear(w, s, z0)  y = Conv(d, v) }"
    )
    assert wrapper.receipt.precision == "int8"  # the compiled precision, not the requested


def test_int8_without_data_is_refused(model, tmp_path):
    with pytest.raises(ParamsError) as raised:
        int8(model, tmp_path / "out", None)
    assert str(raised.value) == "precision int8 requires calibration data"
    assert raised.value.hint.startswith("--data FILE.npz: numpy.savez")


@nncf
def test_a_calibration_item_of_the_wrong_size_is_named(model, tmp_path):
    data = [{"x": np.ones((1, 3, 16, 16), np.float32)}, {"x": np.ones((1, 3, 8, 8), np.float32)}]
    with pytest.raises(InputError) as raised:
        int8(model, tmp_path / "out", data)
    assert str(raised.value) == (
        "item 1 of the list given as data: input 'x' has size 8 in dimension 2 of (1, 3, 8, 8), "
        "expected 16: x float32[1, 3, 16, 16]"
    )
    assert not (tmp_path / "out").exists()


def test_int8_without_nncf_is_refused(model, recorded, tmp_path, monkeypatch):
    # An import system in which the package is not there: find_spec answers None for it.
    monkeypatch.delitem(sys.modules, "nncf", raising=False)
    monkeypatch.setattr(
        sys,
        "meta_path",
        [_without_nncf(finder) for finder in sys.meta_path],
    )
    with pytest.raises(MissingDependencyError) as raised:
        int8(model, tmp_path / "out", recorded)
    assert str(raised.value) == "precision int8 requires NNCF, which is not installed"
    assert raised.value.hint == install_command("enginebay-openvino[int8]")


def _without_nncf(finder):
    class Finder:
        def find_spec(self, name, path=None, target=None):
            return None if name == "nncf" else finder.find_spec(name, path, target)

        def __getattr__(self, name):
            return getattr(finder, name)

    return Finder()
