"""Requested providers, their fallbacks, and the receipt."""

from __future__ import annotations

import shutil
from collections import Counter
from types import SimpleNamespace

import msgspec
import numpy as np
import onnxruntime
import pytest

import enginebay as eb
from enginebay.environment import Tier
from enginebay.errors import FallbackError, ParamsError
from enginebay.hooks import CheckEnvRequest
from enginebay_onnxruntime.environment import check_tier
from enginebay_onnxruntime.params import OnnxruntimeParams

RELU = "(float[n] x) => (float[n] y) { y = Relu(x) }"
HAS_CUDA = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
no_cuda = pytest.mark.skipif(HAS_CUDA, reason="this build of ONNX Runtime has CUDA")
#: A provider that is in the plain CPU wheel and takes none of ONNX's own operators.
AZURE = "AzureExecutionProvider"
azure = pytest.mark.skipif(
    AZURE not in onnxruntime.get_available_providers(), reason=f"this build has no {AZURE}"
)


def test_the_receipt_reports_engine_device_and_provider(load):
    receipt = load(RELU).receipt
    assert receipt == eb.Receipt(
        engine=f"onnxruntime {onnxruntime.__version__}",
        device="cpu",
        provider="CPUExecutionProvider",
        precision="fp32",
        details={"providers": "CPUExecutionProvider"},
    )


@no_cuda
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
@pytest.mark.parametrize("strict", [False, True])
def test_cuda_that_does_not_load_is_refused(load, device, strict):
    with pytest.raises(FallbackError) as raised:
        load(RELU, device=device, strict=strict)
    assert str(raised.value) == (
        f"device '{device}' was requested, but onnxruntime {onnxruntime.__version__} runs on "
        "'cpu': CUDAExecutionProvider was requested but could not be loaded"
    )
    check = f"enginebay check-env onnxruntime --device {device}"
    assert raised.value.hint == f"--device cpu; {check}"


def test_the_library_that_cuda_lacks_is_named(tmp_path, monkeypatch):
    from enginebay_onnxruntime import providers
    from enginebay_onnxruntime.params import OnnxruntimeParams

    monkeypatch.setattr(providers, "available_providers", lambda: [providers.CUDA, providers.CPU])
    monkeypatch.setattr(providers, "DRIVER", "libno-such-driver.so.1")
    monkeypatch.setattr(onnxruntime, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "capi").mkdir()
    provider = tmp_path / "capi" / "libonnxruntime_providers_cuda.so"
    assert providers.find_missing_library(providers.CUDA) == str(provider)
    shutil.copy(msgspec._core.__file__, provider)  # any library that loads
    session = SimpleNamespace(get_providers=lambda: [providers.CPU])
    assert providers.describe_fallbacks(OnnxruntimeParams(device="cuda"), session, Counter()) == (
        "CUDAExecutionProvider was requested but could not be loaded: no libno-such-driver.so.1",
    )
    request = CheckEnvRequest(
        tier=Tier.DEVICE,
        params=OnnxruntimeParams(device="cuda"),
        with_custom_ops=False,
        work_dir=tmp_path,
    )
    check = check_tier(request).failed
    assert (check.name, check.found) == ("CUDAExecutionProvider", "no libno-such-driver.so.1")
    assert check.fix.startswith("install NVIDIA's driver")
    monkeypatch.setattr(providers, "find_missing_library", lambda _: "libcublasLt.so.13")
    assert check_tier(request).failed.fix == "pip install 'onnxruntime-gpu[cuda,cudnn]'"


@no_cuda
def test_auto_selects_and_reports_an_available_device(load):
    wrapper = load(RELU, device="auto", strict=True)
    assert (wrapper.receipt.device, wrapper.receipt.fallbacks) == ("cpu", ())
    assert wrapper({"x": np.array([-1, 1], np.float32)})["y"].tolist() == [0, 1]


@no_cuda
def test_loading_a_cpu_artifact_for_missing_cuda_is_refused(load, tmp_path):
    load(RELU)
    with pytest.raises(FallbackError, match="device 'cuda' was requested"):
        eb.load(tmp_path / "artifact_0", device="cuda")


def test_a_device_that_the_named_providers_do_not_use_is_refused(load):
    with pytest.raises(FallbackError, match="requested, but no requested provider uses it"):
        load(RELU, device="cuda", providers=["CPUExecutionProvider"])


def test_strict_mode_accepts_the_cpu(load):
    assert load(RELU, strict=True).receipt.fallbacks == ()


@azure
def test_the_receipt_reports_a_provider_without_nodes(load):
    receipt = load(RELU, providers=[AZURE, "CPUExecutionProvider"]).receipt
    if "nodes" in receipt.details:  # ONNX Runtime tells since 1.24
        assert receipt.provider == "CPUExecutionProvider"
        assert receipt.details["nodes"] == "CPUExecutionProvider 1"
        assert receipt.fallbacks == (f"{AZURE} was requested but runs no node of this model",)


@azure
def test_strict_mode_refuses_nodes_that_fall_back_to_the_cpu(load):
    with pytest.raises(FallbackError) as raised:
        load(RELU, providers=[AZURE, "CPUExecutionProvider"], strict=True)
    assert str(raised.value).startswith("the requested provider cannot run the whole model, and ")
    assert "explicitly disabled by the user" in str(raised.value)


@pytest.mark.parametrize("device", ["tpu", "cuda:", "cuda:x", "cuda:-1", "cpu:1", "", "CUDA"])
def test_an_unknown_device_is_refused_before_anything_is_loaded(device):
    with pytest.raises(ParamsError) as raised:
        OnnxruntimeParams(device=device)
    assert str(raised.value) == (
        f"unknown device '{device}' for ONNX Runtime: expected cpu, cuda, cuda:N or auto"
    )
    assert raised.value.hint == "use --device cpu, or choose the provider with --providers"
    assert OnnxruntimeParams(device=device, providers=["some_package"]).device == device


def test_an_unknown_provider_is_refused(load):
    with pytest.raises(ParamsError) as raised:
        load(RELU, providers=["CUDAExecutionProvidr"])
    assert str(raised.value) == (
        "unknown provider 'CUDAExecutionProvidr'; available in this build of ONNX Runtime: "
        f"{', '.join(onnxruntime.get_available_providers())}"
    )
    assert raised.value.hint == "did you mean 'CUDAExecutionProvider'?"


@pytest.mark.parametrize(
    "key", ["CUDAExecutionProvider.device_id", "arena", "CPUExecutionProvider."]
)
def test_an_option_of_an_unused_provider_is_refused(load, key):
    with pytest.raises(ParamsError) as raised:
        load(RELU, provider_options={key: "1"})
    assert str(raised.value) == (
        f"provider option '{key}=1' is not for a requested provider: "
        "expected PROVIDER.OPTION=VALUE, where PROVIDER is one of CPUExecutionProvider"
    )
    assert raised.value.hint == "add the provider to --providers, or remove the option"


def test_the_devices_number_and_other_options_reach_the_provider():
    from enginebay_onnxruntime.params import OnnxruntimeParams
    from enginebay_onnxruntime.providers import provider_options

    params = OnnxruntimeParams(
        device="cuda:2",
        provider_options={"CUDAExecutionProvider.cudnn_conv_algo_search": "DEFAULT"},
    )
    assert provider_options(params) == {
        "CUDAExecutionProvider": {
            "device_id": "2",
            "cudnn_conv_algo_search": "DEFAULT",
            "use_tf32": "0",
        },
        "CPUExecutionProvider": {},
    }
    named = params.replace(
        provider_options={
            "CUDAExecutionProvider.device_id": "1",
            "CUDAExecutionProvider.use_tf32": "1",
        }
    )
    wanted = {"device_id": "1", "use_tf32": "1"}
    assert provider_options(named)["CUDAExecutionProvider"] == wanted


def test_loading_prints_nothing(load, capfd):
    load(RELU, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("(float16[n] x) => (float16[n] y) { y = Relu(x) }", "fp16"),
        ("(int64[n] x) => (float16[n] y) { y = Cast<to = 10>(x) }", "fp16"),
        ("(bfloat16[n] x) => (bfloat16[n] y) { y = Identity(x) }", "bf16"),
        ("(double[n] x) => (double[n] y) { y = Relu(x) }", "fp32"),
    ],
)
def test_the_precision_is_derived_from_inputs_and_outputs(load, text, precision):
    assert load(text).receipt.precision == precision


def test_the_receipt_reports_fp16_after_conversion(load):
    assert load(RELU, precision="fp16").receipt.precision == "fp16"
