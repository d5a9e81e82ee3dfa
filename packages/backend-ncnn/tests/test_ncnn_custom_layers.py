"""Layers that the caller brings: one module of the model becomes one layer of the network."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError, ParamsError

MODULE = "ncnn_test_layers.Decode"


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    monkeypatch.syspath_prepend(Path(__file__).parent / "own")
    own = importlib.import_module("ncnn_test_layers")
    return nn.Sequential(nn.Linear(4, 4), own.Decode(), nn.ReLU())


def params(layer: str) -> dict[str, object]:
    return {"module_ops": (MODULE,), "custom_layers": {MODULE: f"ncnn_test_layers:{layer}"}}


def test_a_module_becomes_a_custom_layer(deploy, net):
    deployed = deploy(
        net, torch.randn(1, 4), export={"ir": "torchscript"}, params=params("DecodeLayer")
    )
    assert deployed.verdict == "verified"
    assert MODULE in (deployed.artifact.path / "model.param").read_text()
    with eb.load(deployed.artifact) as loaded:
        for _ in range(20):  # ncnn does not hold the layer: it must not be collected
            x = torch.randn(1, 4)
            torch.testing.assert_close(loaded({"input": x})["output"], net(x))


def test_a_module_of_a_script_becomes_a_custom_layer(deploy, net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "its.py").write_text(
        "from torch import nn\n"
        "class Decode(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x * 2 + 1\n"
        "def build():\n"
        "    return nn.Sequential(nn.Linear(4, 4), Decode(), nn.ReLU())\n"
    )
    name = "its.py:Decode"
    own = {"module_ops": (name,), "custom_layers": {name: "ncnn_test_layers:DecodeLayer"}}
    deployed = deploy("its.py:build", torch.randn(1, 4), export={"ir": "torchscript"}, params=own)
    assert deployed.verdict == "verified"
    assert f"{name} " in (deployed.artifact.path / "model.param").read_text()


@pytest.mark.parametrize(
    ("name", "ir", "message", "hint"),
    [
        (
            "ncnn_test_layers.Decoed",
            "torchscript",
            (
                "module_ops: unknown module class 'ncnn_test_layers.Decoed'; available: "
                "ncnn_test_layers.Decode"
            ),
            "did you mean 'ncnn_test_layers.Decode'?",
        ),
        (MODULE, "onnx", "module_ops: an ONNX file has no modules", "--ir torchscript"),
    ],
)
def test_an_unknown_module_op_is_refused(deploy, net, name, ir, message, hint):
    with pytest.raises(ParamsError) as caught:
        deploy(net, torch.randn(1, 4), export={"ir": ir}, params={"module_ops": (name,)})
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_a_module_op_without_a_custom_layer_is_named(deploy, net):
    with pytest.raises(ConversionError) as caught:
        deploy(
            net, torch.randn(1, 4), export={"ir": "torchscript"}, params={"module_ops": (MODULE,)}
        )
    assert f"it has no layer {MODULE}" in str(caught.value)


def test_the_hint_for_the_first_ir_is_not_hidden_by_a_parameter_for_the_other(deploy, net):
    with pytest.raises(ConversionError) as caught:
        deploy(net, torch.randn(1, 4), params={"module_ops": (MODULE,)})
    assert f"it has no layer {MODULE}" in str(caught.value)
    assert "onnx: module_ops: an ONNX file has no modules" in str(caught.value)
    assert caught.value.hint == f"--custom-layers {MODULE}=package.module:Class"


def test_a_crash_of_ncnn_is_an_error(deploy, net):
    with pytest.raises(ConversionError) as caught:
        deploy(net, torch.randn(1, 4), export={"ir": "torchscript"}, params=params("CrashingLayer"))
    assert "ncnn cannot run pnnx's network: " in str(caught.value)
    assert "SIGABRT" in str(caught.value)


def check_custom_ops(**layers: str) -> eb.Check:
    backend = eb.get_backend("ncnn")
    report = backend.check_env(backend.Params(custom_layers=layers), with_custom_ops=True)
    (check,) = (check for check in report.checks if check.name == "custom ops")
    assert (check.tier, report.ok) == ("device", check.status == "ok")
    return check


def test_check_env_loads_the_custom_layers(net):
    assert check_custom_ops(Decode="ncnn_test_layers:DecodeLayer").found == "Decode"


def test_check_env_fails_without_custom_layers():
    check = check_custom_ops()
    assert (check.found, check.wanted) == ("none is specified", "at least one that loads")
    assert check.fix == "--custom-layers Type=package.module:Class"


def test_check_env_names_a_class_that_is_no_layer(net):
    check = check_custom_ops(Decode=MODULE.replace(".", ":"))
    layer = "custom layer Decode='ncnn_test_layers:Decode'"
    assert check.found == f"{layer} is not a class derived from ncnn.Layer"
    assert check.wanted == "operators that load: Decode"
    assert check.fix == "--custom-layers Type=package.module:Class"
