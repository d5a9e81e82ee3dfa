"""What cannot be converted is refused, with the operator, the place and the reason."""

from __future__ import annotations

import re
import sys
import time

import onnx
import psutil
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.authors.isolation import time_limit
from enginebay.errors import (
    ChildTimeoutError,
    ConversionError,
    MissingDependencyError,
    ParamsError,
)
from enginebay_ncnn import pnnx
from enginebay_ncnn.dialect.operators import OPERATORS
from enginebay_ncnn.dialect.program import write_program
from enginebay_ncnn.network import load_network
from enginebay_ncnn.params import NcnnParams, parse_vulkan_index
from enginebay_ncnn.torchscript_files import silence_warnings


class Bits(nn.Module):
    """An operator that neither ncnn nor a lowering has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bitwise_and(x, 3)


def test_an_operator_that_ncnn_lacks_is_named_with_its_source_line(deploy):
    with pytest.raises(ConversionError) as caught:
        deploy(Bits(), torch.arange(8), export={"ir": "torchscript"})
    assert re.search(
        r"ncnn has no layer for .*torch\.bitwise_and.*test_ncnn_refusals\.py:\d+", str(caught.value)
    )


def test_the_source_line_may_be_in_a_folder_with_a_space(deploy):
    module = {"torch": torch}
    code = "def bits(x):\n    return torch.bitwise_and(x, 3)"
    exec(compile(code, "/my models/net.py", "exec"), module)

    class Model(nn.Module):
        def forward(self, x):
            return module["bits"](x)

    with pytest.raises(ConversionError, match=r"bitwise_and.* my models/net\.py:2"):
        deploy(Model(), torch.arange(8), export={"ir": "torchscript"})


def test_the_message_has_the_reason_of_each_attempt(deploy):
    with pytest.raises(ConversionError) as caught:
        deploy(Bits(), torch.arange(8))
    text = str(caught.value)
    assert "torchscript: the unchanged model: " in text
    assert "; the model with lowered operators: " in text
    assert "onnx: " in text


def test_a_failed_onnx_conversion_hints_at_torchscript(deploy):
    with pytest.raises(ConversionError) as caught:
        deploy(Bits(), torch.arange(8), export={"ir": "onnx"})
    assert str(caught.value).startswith("ncnn has no layer for ")
    assert caught.value.hint.endswith(
        "or replace the operator in the model; or --ir torchscript without cuts, which is lowered "
        "to ncnn's operators"
    )


@pytest.fixture
def write(tmp_path_factory):
    """Write a model in ONNX's text format."""

    def write(text, *, opset=17, ir=9):
        path = tmp_path_factory.mktemp("file") / "net.onnx"
        header = f'<ir_version: {ir}, opset_import: ["": {opset}, "ai.onnx.ml": 3, "own": 1]>'
        onnx.save(onnx.parser.parse_model(f"{header} net {text}"), path)
        return path

    return write


SIGMOID = "(float[2,4] x) => (float[2,4] y) { y = Sigmoid(x) }"
X = {"x": torch.randn(2, 4)}


def test_an_operator_of_a_file_that_pnnx_does_not_know_is_named_with_its_node(deploy, write):
    text = "(float[2,4] x) => (float[2,4] y) { r = Relu(x) y = ai.onnx.ml.Scaler(r) }"
    with pytest.raises(ConversionError) as caught:
        deploy(write(text), X)
    assert str(caught.value) == "pnnx does not know Scaler ('y')"
    assert caught.value.hint.startswith(
        "deploy the PyTorch model or a TorchScript file of it, which are lowered to ncnn's "
    )


def test_a_file_with_local_functions_is_verified(deploy, write):
    call = "(float[2,4] x) => (float[2,4] y) { y = own.leaky(x) }"
    head = '<domain: "own", opset_import: ["": 17]> leaky<slope: float = 0.3>'
    body = "(a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }"
    assert deploy(write(call + head + body), X).verdict == "verified"


def test_a_file_of_newer_versions_with_old_operators_is_verified(deploy, write):
    assert deploy(write(SIGMOID, opset=28, ir=14), X).verdict == "verified"


def test_an_operator_that_is_newer_than_pnnx_is_named(deploy, write, monkeypatch):
    monkeypatch.setattr("enginebay_ncnn.onnx_files._NEWEST_OPSET", 12)
    with pytest.raises(ConversionError) as caught:
        deploy(write(SIGMOID, opset=13), X)
    assert str(caught.value) == (
        "pnnx reads ONNX up to opset 12, and 'net.onnx' has newer operators of opset 13: Sigmoid"
    )
    assert caught.value.hint.startswith("export the model with opset 12; or deploy the PyTorch")


def test_a_dynamic_size_without_a_range_is_refused(deploy):
    with pytest.raises(ConversionError) as caught:
        deploy(nn.ReLU(), torch.randn(1, 3, 8), dynamic={"input": {2: "length"}})
    assert (
        "dimension 2 of input float32[1, 3, length] is dynamic, and pnnx requires its range"
        in str(caught.value)
    )


def test_an_unsupported_dtype_is_refused(deploy):
    with pytest.raises(
        ConversionError, match="'input' has dtype float64, but backend 'ncnn' supports"
    ):
        deploy(nn.ReLU(), torch.randn(1, 3, dtype=torch.float64))


def test_a_failed_conversion_leaves_no_files(deploy, tmp_path):
    with pytest.raises(ConversionError):
        deploy(Bits(), torch.arange(8))
    assert list(tmp_path.iterdir()) == []


def test_a_time_limit_ends_pnnx(deploy, convolutions):
    with pytest.raises(ConversionError, match=r"pnnx failed: 'pnnx' ran past its time limit"):
        deploy(*convolutions, export={"ir": "onnx"}, params={"pnnx_timeout": 0.001})


def test_a_crash_of_pnnx_is_an_error_with_its_signal(
    deploy, convolutions, tmp_path, tmp_path_factory, monkeypatch
):
    program = tmp_path_factory.mktemp("crashing") / "pnnx"
    program.write_text("#!/bin/sh\nprintf '\\033[1;31mlast words\\033[m\\n'\nkill -SEGV $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(pnnx, "find_program", lambda: program)
    with pytest.raises(ConversionError) as caught:
        deploy(*convolutions, export={"ir": "onnx"})
    assert (
        str(caught.value)
        == "pnnx failed: 'pnnx' ended with SIGSEGV; its last output:\n  last words"
    )
    assert list(tmp_path.iterdir()) == []


#: Runs for ever, as pnnx does on RAFT, and so does its child process.
ENDLESS = """#!{python}
import subprocess, sys, time
if len(sys.argv) > 2:
    subprocess.Popen([sys.executable, __file__, "{mark}"])
print("foldop", flush=True)
while True:
    time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        (lambda limit: {"params": {"pnnx_timeout": limit}}, ConversionError, "pnnx failed: 'pnnx'"),
        (lambda limit: {"verify": {"timeout": limit}}, ChildTimeoutError, "the conversion"),
    ],
)
def test_an_endless_pnnx_is_ended_with_its_children(
    limits, error, message, deploy, convolutions, tmp_path, tmp_path_factory, monkeypatch, soon
):
    folder = tmp_path_factory.mktemp("endless")
    program = folder / "pnnx"
    program.write_text(ENDLESS.format(python=sys.executable, mark=folder.name))
    program.chmod(0o755)
    monkeypatch.setattr(pnnx, "find_program", lambda: program)
    with pytest.raises(error, match=f"^{message} ran past its time limit of {soon} s"):
        deploy(*convolutions, export={"ir": "onnx"}, **limits(soon))
    assert list(tmp_path.iterdir()) == []
    commands = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(program) in command]


@pytest.mark.slow
def test_the_lowered_model_has_time_if_pnnx_does_not_end(
    deploy, tmp_path_factory, monkeypatch, soon
):
    program = tmp_path_factory.mktemp("endless") / "pnnx"
    program.write_text(
        f'#!/bin/sh\ncase "$1" in */lowered.pt) exec {pnnx.find_program()} "$@";; esac\nsleep 600\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(pnnx, "find_program", lambda: program)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    assert (
        deploy(model, torch.randn(1, 3, 8, 8), verify={"timeout": 20 * soon}).verdict == "verified"
    )


class ManyMaxima(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(40):
            x = x.cummax(1).values + x.flip(1)
        return x


class ManySums(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(400):
            x = x + x.sin()
        return x


def test_a_time_limit_ends_the_lowering():
    x = torch.randn(1, 64, 8)
    with silence_warnings():
        frozen = torch.jit.freeze(torch.jit.trace(ManyMaxima().eval(), x))
    backend = eb.get_backend("ncnn")
    lower = backend.lowering("torchscript")
    started = time.process_time()
    limit = pytest.raises(ChildTimeoutError, match=r"the time limit of 0\.2 s")
    with torch.no_grad(), silence_warnings(), time_limit(0.2), limit:
        lower(frozen, (x,), OPERATORS)
    assert time.process_time() - started < 5


def test_a_time_limit_ends_the_writing(tmp_path):
    x = torch.randn(1, 64, 8)
    with silence_warnings():
        program = torch.export.export(ManySums().eval(), (x,))
        limit = pytest.raises(ChildTimeoutError, match=r"the time limit of 0\.01 s")
        with time_limit(0.01), limit:
            write_program(program, (x,), tmp_path / "lowered.pt")
    assert not list(tmp_path.iterdir())


def test_an_unknown_device_is_refused():
    with pytest.raises(ParamsError) as caught:
        NcnnParams(device="cuda")
    assert str(caught.value) == ("unknown device 'cuda' for ncnn: expected cpu, vulkan or vulkan:N")
    assert [parse_vulkan_index(device) for device in ("cpu", "vulkan", "vulkan:2")] == [None, 0, 2]


def test_a_custom_layer_that_cannot_be_imported_is_refused():
    with pytest.raises(ParamsError, match=r"expected package\.module:Class"):
        load_network("x", "y", NcnnParams(custom_layers={"Mine": "nowhere"}))
    with pytest.raises(MissingDependencyError, match="cannot be imported"):
        load_network("x", "y", NcnnParams(custom_layers={"Mine": "no_such_package:Mine"}))


def test_a_damaged_plan_is_an_artifact_error(deploy, convolutions):
    path = deploy(*convolutions).artifact.path / "model.plan.json"
    from enginebay_ncnn.plan import Plan

    path.write_text('{"inputs": 1}')
    with pytest.raises(eb.EnginebayError, match="is not a valid ncnn plan"):
        Plan.read(path)


def test_an_onnx_model_too_large_for_one_file_is_refused(deploy, convolutions, monkeypatch):
    monkeypatch.setattr("enginebay_ncnn.onnx_files._MAX_BYTES", 100)
    with pytest.raises(ConversionError, match=r"pnnx reads at most 2\.1 GB"):
        deploy(*convolutions, export={"ir": "onnx"})
