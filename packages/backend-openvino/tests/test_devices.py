"""Requested devices, precisions and properties, and those that the compiled model reports."""

from __future__ import annotations

import platform
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openvino
import pytest

import enginebay as eb
from enginebay.cli import main
from enginebay.errors import ConversionError, FallbackError, ParamsError

MATMUL = (
    "(float[n, 64] x) => (float[n, 64] y) <float[64, 64] w = {"
    + ", ".join(["0.1234567"] * 4096)
    + "}> { y = MatMul(x, w) }"
)
CORE = openvino.Core()
CAPABILITIES = CORE.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
HAS_GPU = any(device.startswith("GPU") for device in CORE.available_devices)
no_gpu = pytest.mark.skipif(HAS_GPU, reason="OpenVINO offers a GPU here")
X = np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 64)


def reference():
    return X.astype(np.float64) @ np.full((64, 64), 0.1234567)


def needs(precision):
    return pytest.mark.skipif(
        precision not in CAPABILITIES, reason=f"this processor has no {precision}"
    )


def test_fp32_is_computed_in_fp32_whatever_the_processor_prefers(load):
    wrapper = load(MATMUL, strict=True)
    assert wrapper.receipt.precision == "fp32"
    assert wrapper.receipt.details["inference_precision"] == "f32"
    assert wrapper.receipt.details["layers"] == "1 f32"
    assert wrapper.receipt.fallbacks == ()
    np.testing.assert_allclose(wrapper({"x": X})["y"], reference(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "hint"),
    [
        pytest.param("bf16", "bf16", marks=needs("BF16")),
        pytest.param("fp16", "f16", marks=needs("FP16")),
    ],
)
def test_the_receipt_reports_the_compiled_precision(load, precision, hint):
    wrapper = load(MATMUL, precision=precision)
    assert wrapper.receipt.details["inference_precision"] in (hint, "f32")
    if wrapper.receipt.fallbacks:
        assert wrapper.receipt.precision == "fp32"
        return
    assert wrapper.receipt.precision == precision
    error = np.abs(wrapper({"x": X})["y"] - reference()).max()
    assert 1e-5 < error < 0.1  # it is really computed in the precision


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="on x86 alone the instruction set can be limited"
)
@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_unsupported_fp16_falls_back_to_fp32(write, tmp_path, run_with, device):
    params = {"precision": "fp16", "device": device}
    eb.convert(write(MATMUL), backend="openvino", work_dir=tmp_path / "out", params=params)
    receipt, outputs = run_with("AVX2", tmp_path / "out", x=X)
    assert receipt["fallbacks"] == [
        "inference precision f16 was requested, but the compiled model reports f32"
    ]
    assert receipt["precision"] == "fp32"
    np.testing.assert_allclose(outputs["y"], reference(), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:inference precision f16 was requested")
def test_what_is_printed_shows_the_precision_that_was_computed_in(write, tmp_path, capsys):
    made = eb.deploy(
        write(MATMUL),
        {"x": X},
        backend="openvino",
        work_dir=tmp_path / "out",
        params={"precision": "fp16"},
    )
    assert made.verdict == "verified"
    assert main(["inspect", str(tmp_path / "out")]) == 0
    # The CPU decides.
    shown = ", fp16 → fp32" if made.receipt.precision == "fp32" else ", fp16"
    for text in (capsys.readouterr().out, str(made)):
        (line,) = [line for line in text.splitlines() if line.startswith("engine")]
        assert line.endswith(shown)


def test_auto_reports_the_selected_device(load):
    wrapper = load(MATMUL, device="auto")
    assert wrapper.receipt.device.upper() in CORE.available_devices
    assert wrapper.receipt.precision == "fp32"
    assert wrapper.receipt.details["inference_precision"] == "f32"
    np.testing.assert_allclose(wrapper({"x": X})["y"], reference(), rtol=1e-5, atol=1e-5)


@no_gpu
@pytest.mark.parametrize("device", ["gpu", "GPU.1", "npu"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_missing_device_is_refused(load, device, strict):
    offered = ", ".join(CORE.available_devices)
    with pytest.raises(FallbackError) as raised:
        load(MATMUL, device=device, strict=strict)
    text = f"'cpu': device {device.upper()} was requested; this machine has {offered}"
    assert text in str(raised.value)


@pytest.mark.parametrize("device", ["tpu", "cuda:0", "gpu.x", "", "cpu,gpu"])
def test_an_unknown_device_is_refused(load, device):
    with pytest.raises(ParamsError) as raised:
        load(MATMUL, device=device)
    assert str(raised.value) == (
        f"unknown device '{device}' for OpenVINO: expected cpu, gpu, gpu.N, npu or auto"
    )
    assert raised.value.hint == f"this machine has {', '.join(CORE.available_devices).lower()}"


def test_the_device_can_be_changed_on_load(load, tmp_path):
    load(MATMUL).close()
    with eb.load(tmp_path / "artifact_0", device="auto") as wrapper:
        assert wrapper.receipt.details["performance_hint"] == "latency"
    with pytest.raises(ParamsError, match="unknown device 'abacus' for OpenVINO"):
        eb.load(tmp_path / "artifact_0", device="abacus")


def test_hint_streams_and_threads_reach_the_engine(load):
    details = load(MATMUL, performance_hint="throughput", threads=1).receipt.details
    assert (details["performance_hint"], details["threads"]) == ("throughput", "1")
    details = load(MATMUL, streams=1).receipt.details
    assert (details["performance_hint"], details["streams"]) == ("latency", "1")


def test_fewer_streams_than_requested_are_a_fallback(load):
    receipt = load(MATMUL, streams=3, threads=1).receipt
    assert receipt.fallbacks == ("3 streams were requested, but the compiled model has 1",)


def test_other_properties_reach_the_engine(load):
    wrapper = load(MATMUL, properties={"CPU_DENORMALS_OPTIMIZATION": "YES"})
    assert wrapper.compiled.get_property("CPU_DENORMALS_OPTIMIZATION") is True


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"FROBNICATE": "1"}, "NotFound: Unsupported property FROBNICATE by CPU plugin."),
        ({"NUM_STREAMS": "x"}, "Could not read number of streams from str: x; stoi"),
    ],
)
def test_an_invalid_property_is_refused(load, properties, reason):
    with pytest.raises(ConversionError) as raised:
        load(MATMUL, properties=properties)
    assert str(raised.value) == f"OpenVINO cannot load 'model.xml': {reason}"


def test_compiled_models_are_loaded_from_the_cache(load, tmp_path):
    cache = tmp_path / "cache"
    first = load(MATMUL, cache_dir=str(cache))
    assert first.receipt.details["loaded_from_cache"] == "false"
    expected = first({"x": X})["y"]
    second = eb.load(tmp_path / "artifact_0")
    assert second.receipt.details["loaded_from_cache"] == "true"
    assert second.receipt.precision == "fp32"
    np.testing.assert_array_equal(second({"x": X})["y"], expected)
    second.close()
    blobs = list(cache.glob("*.blob"))
    assert blobs
    for blob in blobs:
        blob.write_bytes(b"damaged" * 100)
    with eb.load(tmp_path / "artifact_0") as third:
        np.testing.assert_array_equal(third({"x": X})["y"], expected)


def test_an_unwritable_cache_is_refused(load, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConversionError, match=r"^OpenVINO cannot load 'model\.xml': Couldn't cre"):
        load(MATMUL, cache_dir=str(tmp_path / "file" / "cache"))


def test_many_threads_can_load_an_artifact(load, tmp_path):
    load(MATMUL).close()

    def load_and_run(_):
        with eb.load(tmp_path / "artifact_0") as wrapper:
            return np.allclose(wrapper({"x": X})["y"], reference(), rtol=1e-5, atol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(load_and_run, range(8)))
