"""Providers from PyPI: Qualcomm's with its emulator, and nxrt's for the CPU."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ArtifactError, ConversionError, FallbackError, ParamsError
from enginebay_onnxruntime.provider_packages import plug_in

pytestmark = pytest.mark.skipif(
    not (find_spec("onnxruntime_qnn") and find_spec("nxrt_ep_cpu")),
    reason="nox -s providers installs onnxruntime-qnn and nxrt-ep-cpu",
)
QNN, NXRT, CPU = "onnxruntime_qnn", "nxrt_ep_cpu", "CPUExecutionProvider"
#: Each module with the provider's own name.
NAMES = {QNN: "QNNExecutionProvider", NXRT: "cpu_ep"}
RELU = "(float[2] x) => (float[2] y) { y = Relu(x) }"
#: nxrt's provider has no IsNaN.
TWO = "(float[2] x) => (float[2] y, bool[2] z) { y = Relu(x) z = IsNaN(x) }"


@pytest.mark.parametrize("module", NAMES)
@pytest.mark.parametrize("separator", ["-", "_"])
def test_the_receipt_names_the_package_and_the_provider_that_ran(load, module, separator):
    wrapper = load(RELU, providers=[module.replace("_", separator)])
    assert wrapper({"x": np.array([-1, 1], np.float32)})["y"].tolist() == [0, 1]
    distribution = module.replace("_", "-")
    package = f"{distribution} {version(distribution)}"
    receipt = wrapper.receipt
    assert receipt.engine == f"onnxruntime {onnxruntime.__version__}, {package}"
    assert (receipt.provider, receipt.device, receipt.fallbacks) == (NAMES[module], "cpu", ())
    assert receipt.details["nodes"] == f"{NAMES[module]} 1"


class Pooled(nn.Module):
    """Pads what may be negative, where padding with 0 instead of the lowest number shows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        nn.init.constant_(self.conv.bias, -2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve, and take the largest of 3 by 3 numbers."""
        return nn.functional.max_pool2d(self.conv(x), 3, 2, 1)


def deploy(net, x, tmp_path, module, data=None, **params):
    return eb.deploy(
        net,
        (x,),
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        params={"providers": [module], **params},
        verify=eb.VerifyOptions(allow_mismatch=True),
        data=data,
        overwrite=True,
    )


def test_the_manifest_holds_the_packages_version(tmp_path):
    deployment = deploy(nn.Linear(4, 3).eval(), torch.rand(2, 4), tmp_path, NXRT)
    assert deployment.verdict == "verified"
    package = f"nxrt-ep-cpu {version('nxrt-ep-cpu')}"
    assert deployment.artifact.manifest.receipt.engine.endswith(f", {package}")


def test_a_wrong_operator_of_a_provider_is_not_verified(tmp_path):
    """Qualcomm's MaxPool in float pads with 0 (onnxruntime-qnn 2.7.0)."""
    deployment = deploy(Pooled().eval(), torch.rand(1, 3, 8, 8), tmp_path, QNN)
    assert deployment.verdict == "mismatched"
    assert deployment.artifact.manifest.receipt.provider == "QNNExecutionProvider"


def test_the_same_operator_is_right_in_8_bits_and_better_with_activations_of_16(tmp_path):
    items = [{"x": torch.randn(1, 3, 8, 8)} for _ in range(16)]
    noise = []
    for bits in (8, 16):
        deployment = deploy(
            *(Pooled().eval(), items[0]["x"], tmp_path, QNN, items),
            precision="int8",
            activation_bits=bits,
        )
        receipt = deployment.artifact.manifest.receipt
        assert (deployment.verdict, receipt.precision) == ("verified", "int8")
        assert receipt.provider == "QNNExecutionProvider"
        noise.append(deployment.verification.outputs[0].max_abs_error)
    assert noise[1] < noise[0] / 2


def test_a_part_on_the_cpu_is_refused_with_its_operators(load, capfd):
    with pytest.raises(FallbackError) as raised:
        load(TWO, providers=[NXRT])
    assert str(raised.value) == (
        f"nxrt-ep-cpu {version('nxrt-ep-cpu')} does not run the whole model: 1 of 2 nodes run "
        "elsewhere: 1 IsNaN on CPUExecutionProvider"
    )
    assert raised.value.hint == "--device auto lets the CPU run the rest"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("params", [{"providers": [NXRT, CPU]}, {"device": "auto"}])
def test_a_part_on_the_cpu_that_was_allowed_is_in_the_receipt(load, params):
    params = {"providers": [NXRT], **params}
    wrapper = load(TWO, **params)
    assert wrapper.receipt.provider == "cpu_ep"
    text = "1 of 2 nodes run elsewhere: 1 IsNaN on CPUExecutionProvider"
    assert wrapper.receipt.fallbacks == (text,)
    assert wrapper.receipt.details["nodes"] == "cpu_ep 1, CPUExecutionProvider 1"
    assert wrapper({"x": np.array([-1, np.nan], np.float32)})["z"].tolist() == [False, True]
    with pytest.raises(FallbackError, match="1 IsNaN on CPUExecutionProvider"):
        load(TWO, strict=True, **params)


def test_a_provider_takes_its_nodes_before_the_cpu_whatever_the_order(load):
    wrapper = load(RELU, providers=[CPU, NXRT])
    assert (wrapper.receipt.provider, wrapper.receipt.details["nodes"]) == ("cpu_ep", "cpu_ep 1")
    text = "CPUExecutionProvider was requested but runs no node of this model"
    assert wrapper.receipt.fallbacks == (text,)


def test_a_provider_that_takes_no_node_may_have_a_wrong_option(load):
    with pytest.raises(FallbackError, match="1 of 1 nodes run elsewhere: 1 Relu on") as raised:
        load(RELU, providers=[QNN], provider_options={f"{QNN}.backend_path": "/nowhere.so"})
    assert raised.value.hint == (
        "it takes no node: check --provider-options, or choose another provider"
    )


def test_a_provider_that_takes_no_node_is_not_believed(load):
    wrapper = load("(float[2] x) => (bool[2] z) { z = IsNaN(x) }", providers=[NXRT], device="auto")
    assert wrapper.receipt.details["providers"].startswith("cpu_ep")
    assert wrapper.receipt.provider == CPU
    assert wrapper.receipt.fallbacks == ("cpu_ep was requested but runs no node of this model",)


@pytest.mark.parametrize("device", ["npu", "gpu:1"])
def test_a_device_that_the_provider_does_not_offer_is_refused(load, device):
    with pytest.raises(ParamsError) as raised:
        load(RELU, providers=[QNN], device=device)
    package = f"onnxruntime-qnn {version('onnxruntime-qnn')}"
    assert str(raised.value) == f"{package} has no device '{device}'; it offers cpu"
    assert raised.value.hint == "--device cpu"


def test_an_option_that_the_library_cannot_read_is_in_the_receipt(load):
    options = {f"{QNN}.htp_performance_mode": "burst", f"{QNN}.no_such_option": "1"}
    receipt = load(RELU, providers=[QNN], provider_options=options).receipt
    package = f"onnxruntime-qnn {version('onnxruntime-qnn')}"
    text = f"{package} was given the option no_such_option, whose name is not in its library"
    assert receipt.fallbacks == (text,)


def test_a_backend_that_the_caller_names_replaces_the_emulator(load):
    """Qualcomm's provider takes either backend_type, which Enginebay gives, or backend_path."""
    import onnxruntime_qnn

    options = {f"{QNN}.backend_path": onnxruntime_qnn.get_qnn_htp_path()}
    assert load(RELU, providers=[QNN], provider_options=options).receipt.provider == NAMES[QNN]


def test_an_option_that_the_provider_refuses_is_in_its_own_words(load):
    options = {f"{QNN}.backend_path": "/nowhere.so", f"{QNN}.backend_type": "htp"}
    with pytest.raises(ConversionError) as raised:
        load(RELU, providers=[QNN], provider_options=options)
    assert str(raised.value) == (
        "ONNX Runtime cannot load 'model.onnx': "
        "Only one of 'backend_type' and 'backend_path' should be set."
    )


def test_two_providers_with_one_name_are_refused(tmp_path, monkeypatch):
    import nxrt_ep_cpu

    library = shutil.copy(nxrt_ep_cpu.get_library_path(), tmp_path / "libanother.so")
    code = f"def get_library_path(): return {str(library)!r}"
    (tmp_path / "another_provider.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    plug_in(NXRT)
    try:
        with pytest.raises(ParamsError) as raised:
            plug_in("another_provider")
        assert str(raised.value).startswith("two providers are named 'cpu_ep' in this process: ")
    finally:
        onnxruntime.unregister_execution_provider_library("another_provider")


def test_a_library_that_the_caller_has_registered_is_used(load):
    import nxrt_ep_cpu

    path = nxrt_ep_cpu.get_library_path()
    if not any(d.ep_metadata.get("library_path") == path for d in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library("mine", path)
    assert load(RELU, providers=[NXRT]).receipt.provider == "cpu_ep"


def test_check_env_tries_each_installed_package(backend):
    report = backend.check_env()
    assert report.ok, report
    smoke = {check.name: check for check in report.checks if check.tier == "smoke"}
    for module, provider in NAMES.items():
        check = smoke[module.replace("_", "-")]
        assert check.status == "ok"
        assert f" on {provider}, worst difference 0" in check.found


@pytest.mark.parametrize("module", NAMES)
def test_check_env_of_one_provider_passes_all_tiers(backend, module):
    report = backend.check_env(backend.Params(providers=(module,)))
    assert report.ok, report
    found = {check.name: check.found for check in report.checks}
    assert found[NAMES[module]].startswith(module.replace("_", "-"))


OPEN = "(float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }"


def test_open_dimensions_are_refused_before_the_build(load, tmp_path):
    with pytest.raises(ConversionError) as raised:
        load(OPEN, providers=[QNN])
    assert str(raised.value) == (
        f"the provider of {QNN} takes no open dimensions, and the model has some: x float32[n, 4]"
    )
    assert raised.value.hint.endswith("make an engine for each size: --sizes n=1,4")
    assert load(OPEN, providers=[NXRT]).receipt.provider == "cpu_ep"


def test_an_engine_for_each_size_runs_on_the_provider(load):
    wrapper = load(OPEN, providers=[QNN], sizes={"n": [1, 3]})
    assert wrapper.receipt.details["nodes"] == "QNNExecutionProvider 1"
    for n in (3, 1, 2):
        y = wrapper({"x": np.full((n, 4), -1, np.float32)})["y"]
        assert np.array_equal(y, np.zeros((n, 4), np.float32))


def test_a_size_does_not_hide_what_the_provider_refuses(load):
    text = "(float[n] x) => (float[n] y, bool[n] z) { y = Relu(x) z = IsNaN(x) }"
    with pytest.raises(FallbackError, match="1 of 2 nodes run elsewhere: 1 IsNaN on CPU"):
        load(text, providers=[NXRT], sizes={"n": [2]})


def test_a_compiled_model_loads_with_the_same_versions_only(load, tmp_path, monkeypatch):
    from enginebay_onnxruntime import compiled

    wrapper = load(RELU, providers=[QNN], compiled=True)
    assert wrapper({"x": np.array([-1, 1], np.float32)})["y"].tolist() == [0, 1]
    (node,) = onnx.load(tmp_path / "artifact_0" / "model.onnx").graph.node
    assert node.op_type == "EPContext"
    here = version("onnxruntime-qnn")
    versions = {"onnxruntime": onnxruntime.__version__, "onnxruntime-qnn": "1.0"}
    monkeypatch.setattr(compiled, "list_versions", lambda _: versions)
    with pytest.raises(ArtifactError) as raised:
        eb.load(tmp_path / "artifact_0")
    text = f'the artifact runs only with onnxruntime-qnn "{here}", found "1.0"'
    assert str(raised.value) == text


def test_a_provider_that_writes_no_compiled_models_is_named(load):
    with pytest.raises(ConversionError) as raised:
        load(RELU, providers=[NXRT], compiled=True)
    package = f"nxrt-ep-cpu {version('nxrt-ep-cpu')}"
    assert str(raised.value).startswith(f"{package} cannot compile 'model.onnx' to a file: ")
    assert raised.value.hint == "leave out --compiled"


def test_a_part_on_the_cpu_cannot_be_compiled(load):
    with pytest.raises(ConversionError, match="explicitly disabled by the user"):
        load(
            "(float[2, 2] x) => (float[2, 2] y, float z) { y = Relu(x) z = Det(x) }",
            providers=[QNN],
            compiled=True,
        )
