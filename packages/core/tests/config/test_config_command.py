"""`enginebay deploy --config`, on the loopback backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from enginebay.cli import main
from enginebay.plugins import contributed
from enginebay_testing import temporary_backend

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, image):
        return image.mean((2, 3)) * 2

def build():
    return Net()

def with_inputs():
    return Net(), torch.rand(1, 4, 8, 8)
"""
CONFIG = """
_base_ = './base.json'
onnx_config = dict(
    type='onnx', input_shape=[12, 10], input_names=['input'], output_names=['means'],
    save_file='end2end.onnx', dynamic_axes={'input': {0: 'batch', 2: 'height'}, 'means': {0: 'b'}})
"""
BASE = '{"backend_config": {"type": "loopback"}}'

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(write, loopback, capfd: pytest.CaptureFixture[str]) -> Run:
    write("net.py", MODEL)
    write("mine.py", CONFIG)
    write("base.json", BASE)

    def command(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(list(words))
        return code, *capfd.readouterr()

    return command


def test_environment_variables_are_read_only_with_the_flag(run, write, monkeypatch) -> None:
    monkeypatch.setenv("GAIN", "3")
    write("env.py", "backend_config = dict(type='loopback', gain={{'$GAIN:1'}})")
    flags = ("--input", "1x1x2x2", "--exporter", "torchscript", "--work-dir", "out")
    code, _, err = run("deploy", "net.py:build", "--config", "env.py", "--allow-env", *flags)
    assert code == 1  # a gain of three is another model
    assert "differ" in err


@pytest.mark.parametrize("model", ["net.py:build", "net.py:with_inputs"])
def test_a_config_drives_a_deployment(run, model, folder) -> None:
    code, out, err = run(
        "deploy", model, "--config", "mine.py", "--exporter", "torchscript", "--work-dir", "out"
    )
    assert code == 0, err
    assert "verified against the PyTorch model" in out
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    (image,) = manifest["inputs"]
    assert image["name"] == "input"
    assert image["dims"] == ["batch", 3, "height", 12]
    assert [output["name"] for output in manifest["outputs"]] == ["means"]
    assert manifest["params"]["input_shapes"] == {"input": [1, 3, 10, 12]}
    assert (folder / "out" / "end2end.onnx").is_file()
    assert manifest["command"].endswith("--work-dir out --backend loopback")


def test_flags_win_over_the_config(run, folder) -> None:
    code, _, err = run(
        *("deploy", "net.py:build", "--config", "mine.py", "--exporter", "torchscript"),
        *("--input", "input=2x3x6x12", "--file-name", "mine", "--work-dir", "out"),
    )
    assert code == 0, err
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    labels = manifest["verification"]["basis"]["labels"]
    assert "the sizes input:1x3x6x12" in labels  # the flag's, at the smallest batch
    assert (folder / "out" / "mine.onnx").is_file()


def test_a_config_that_is_wrong_stops_before_anything_is_written(run, write, folder) -> None:
    write("bad.toml", "[backend_config]\ntype = 'loopback'\ngian = 2")
    code, out, err = run("deploy", "net.py:build", "--config", "bad.toml", "--work-dir", "out")
    assert (code, out) == (2, "")
    assert err.startswith(
        "error: bad.toml: backend_config.gian: 'gian' is not a key of backend_config"
    )
    assert err.endswith("hint: did you mean 'gain'?\n")
    code, _, err = run("deploy", "net.py:build", "--config", "mine.py", "--backend", "other")
    assert code == 3
    assert not (folder / "out").exists()


def test_a_codebase_without_a_plugin_is_an_error_when_it_is_needed(run, write) -> None:
    text = "_base_ = 'mine.py'\ncodebase_config = dict(type='zoo', task='Classification')"
    write("zoo.py", text)
    known = ", ".join(contributed("model_sources")) or "none"  # whatever is installed here
    for model in ("resnet18", "zoo:resnet18"):
        code, _, err = run("deploy", model, "--config", "zoo.py")
        assert code == 2
        assert err == (
            f"error: '{model}' is a model of 'zoo' according to the config, but no installed "
            f"plugin provides this model source; available: {known}\n"
            "hint: install the package of the model source, or name the model as file.py:attr\n"
        )
    code, _, err = run(
        *("deploy", "net.py:build", "--config", "zoo.py", "--exporter", "torchscript"),
        *("--work-dir", "out"),
    )
    assert code == 0, err


ZOO = """
import enginebay as eb, torch

@eb.hookimpl
def model_sources():
    return {"zoo": lambda request: (getattr(torch.nn, request.name)(), torch.rand(1, 3, 4, 4))}
"""


def test_a_codebase_that_a_plugin_serves(run, write) -> None:
    write("zoo.py", "backend_config = dict(type='loopback')\ncodebase_config = dict(type='zoo')")
    with temporary_backend("zoo", ZOO, group="enginebay.plugins"):
        for model, folder in (("Sigmoid", "one"), ("zoo:Tanh", "two")):
            flags = ("--exporter", "torchscript", "--work-dir", folder)
            code, out, err = run("deploy", model, "--config", "zoo.py", *flags)
            assert code == 0, err
            assert "verified" in out
        assert run("export", "zoo:ReLU", "--output", "relu.onnx")[0] == 0


SIZED = """
import enginebay as eb, torch

def build(request):
    ((_, shape),) = request.input_shapes.items() or (("", (1, 3, 2, 2)),)
    size = shape[1] * shape[2] * shape[3]
    width = request.codebase_config.get("width", 5)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(size, width))
    return model, torch.rand(1, *shape[1:])

@eb.hookimpl
def model_sources():
    return {"zoo": build, "other": build}
"""


def test_a_codebase_builds_from_its_section_and_the_shape(run, write, folder) -> None:
    """A plugin gets its section of the config, and the requested size."""
    write(
        "zoo.py",
        "_base_ = 'mine.py'\n"
        "onnx_config = dict(dynamic_axes=None, input_shape=[6, 4])\n"
        "codebase_config = dict(type='zoo', width=7)",
    )
    with temporary_backend("zoo", SIZED, group="enginebay.plugins"):
        for model, width in (("net", 7), ("zoo:net", 7), ("other:net", 5)):
            flags = ("--exporter", "torchscript", "--work-dir", model.partition(":")[0])
            code, _, err = run("deploy", model, "--config", "zoo.py", *flags)
            assert code == 0, err
            text = (folder / model.partition(":")[0] / "manifest.json").read_text()
            manifest = json.loads(text)
            assert manifest["inputs"][0]["dims"] == [1, 3, 4, 6]
            assert manifest["outputs"][0]["dims"] == [1, width]
        assert run("export", "zoo:a/path/to/net", "--ir", "torchscript")[0] == 0
        assert (folder / "net.pt").is_file()


def test_inputs_of_another_shape_than_the_configs_are_refused(run, write, folder) -> None:
    write(
        "zoo.py",
        "_base_ = 'mine.py'\n"
        "onnx_config = dict(dynamic_axes=None, input_shape=[6, 4])\n"
        "codebase_config = dict(type='zoo')",
    )
    with temporary_backend("zoo", SIZED, group="enginebay.plugins"):
        flags = ("--exporter", "torchscript", "--input", "input=1x3x2x2", "--work-dir", "out")
        code, _, err = run("deploy", "net", "--config", "zoo.py", *flags)
    # The model is built for the inputs; one for the config's size would fail on them first.
    text = "input 'input': the example has the shape 1x3x2x2, but 'input_shapes' has 1x3x4x6"
    assert (code, err.splitlines()[0]) == (2, f"error: {text}")


def test_an_unnamed_shape_applies_to_the_example_inputs() -> None:
    import torch

    from enginebay.models.example_inputs import example_inputs
    from enginebay.sources.sources import load_model

    class Net(torch.nn.Module):
        def forward(self, image, mask=None):
            return image

    source = load_model((Net(), {"image": torch.ones(1, 3, 2, 2)}))
    stretched = example_inputs(None, source, {"": (1, 3, 4, 6)})
    assert {name: tuple(x.shape) for name, x in stretched.items()} == {"image": (1, 3, 4, 6)}


def test_a_plain_mapping_drives_deploy_too(run, folder) -> None:
    import torch

    import enginebay as eb

    seen = []
    rewriters = eb.RewriterSet()

    @rewriters.function("torch.relu")
    def relu(ctx, x):
        seen.append(ctx.config)
        return ctx.origin_func(x)

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x)

    config = {
        "backend_config": {"type": "loopback"},
        "onnx_config": {"output_names": ["y"]},
        "n": 3,
    }
    done = eb.deploy(
        Net(),
        torch.ones(1, 3),
        config=config,
        work_dir=folder / "out",
        export=eb.ExportOptions(rewriters=[rewriters], exporter="torchscript"),
    )
    assert done.artifact.manifest.backend == "loopback"
    assert [spec.name for spec in done.artifact.outputs] == ["y"]
    assert seen
    assert seen[0] == config


THIRD = '''
import enginebay as eb
from enginebay_testing import loopback

class NewEngineParam(eb.BackendParams):
    """Parameters.

    Args:
        work_dir (str): The working directory.
        file_name (str): File name of the serialized model. Postfix will be
             added automatically.
    """
    file_name: eb.FileName = eb.FileName("model", suffix=".model")
    gain: float = 1.0  # no flag; the loopback wrapper reads it

to_backend, build_wrapper = loopback.to_backend, loopback.build_wrapper

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(name="newengine", irs=("onnx",), params=NewEngineParam, api_version=1)
'''
TOOL = "import enginebay as eb; eb.get_backend('newengine').main()"
HELP = """\
usage: tool.py convert [-h] [--work-dir WORK_DIR] [--file-name FILE_NAME] ir

Convert an IR file with newengine.

positional arguments:
  ir                    the IR file to convert

options:
  -h, --help            show this help message and exit
  --work-dir WORK_DIR   The working directory.
  --file-name FILE_NAME
                        File name of the serialized model. Postfix will be
                        added automatically.
"""


def test_a_strangers_params_are_flags_of_both_tools(write, folder) -> None:
    write("tool.py", TOOL)
    tiny = "import torch, enginebay as eb; eb.export(torch.nn.ReLU(), torch.ones(1), path='a.onnx')"

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "COLUMNS": "80", "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, check=False, env=env
        )

    with temporary_backend("newengine", THIRD):
        assert python("-c", tiny).returncode == 0
        for words in (("-h",), ("convert", "-h")):
            assert python("tool.py", *words).stdout == HELP
        done = python(
            "tool.py", "convert", "a.onnx", "--work-dir", "made/here", "--file-name", "net"
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert (folder / "made" / "here" / "net.model").is_file()
        done = python("tool.py", "none.onnx")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: no file ")
        shown = python("-m", "enginebay", "convert", "newengine", "-h").stdout
        assert "File name of the serialized model. Postfix will be\n" in shown
        done = python("-m", "enginebay", "convert", "newengine", "a.onnx", "--file-name", "net")
        assert (folder / "a-newengine" / "net.model").is_file()
