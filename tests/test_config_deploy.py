"""Deployments by configs with the keys of MMDeploy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

pytest.importorskip("enginebay_onnxruntime", reason="the backends are not installed")

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.head = nn.Linear(4, 5)

    def forward(self, img):
        return self.head(self.conv(img).relu().mean((2, 3)))


def build():
    torch.manual_seed(0)
    return Net()
"""
EXPORT = """
onnx_config = dict(
    type='onnx',
    export_params=True,
    keep_initializers_as_inputs=False,
    opset_version=11,
    save_file='end2end.onnx',
    input_names=['input'],
    output_names=['output'],
    input_shape=None,
    optimize=True)
"""
DYNAMIC = """
_base_ = ['./static.py']
onnx_config = dict(
    dynamic_axes={'input': {0: 'batch', 2: 'height', 3: 'width'}, 'output': {0: 'batch'}})
"""
RANGE = """
    model_inputs=[dict(input_shapes=dict(input=dict(
        min_shape=[1, 3, 16, 16], opt_shape=[1, 3, 32, 48], max_shape=[2, 3, 64, 64])))]"""
BACKENDS = {
    "onnxruntime": "type='onnxruntime'",
    "onnxruntime-fp16": (
        "type='onnxruntime', precision='fp16', common_config=dict(min_positive_val=1e-7, "
        "max_finite_val=1e4, keep_io_types=False, disable_shape_infer=False, "
        "op_block_list=['Resize'], node_block_list=None)"
    ),
    "openvino": "type='openvino', mo_options=dict(args={'--data_type': 'FP32'}, flags=[])",
    "openvino-opt": "type='openvino', model_inputs=[dict(opt_shapes=dict(input=[1, 3, 32, 48]))]",
    "ncnn": "type='ncnn', precision='FP32', use_vulkan=False",
    "ncnn-fp16": "type='ncnn', common_config=dict(fp16_mode=True)",
}


@pytest.fixture
def configs(here: Path) -> Path:
    (here / "net.py").write_text(NET)
    (here / "static.py").write_text(EXPORT)
    (here / "dynamic.py").write_text(DYNAMIC)
    return here


@pytest.mark.parametrize("shapes", ["static", "dynamic"])
@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.one_in(2)
def test_config_sets_backend_shapes_and_precision(
    cli: Run, configs: Path, name: str, shapes: str
) -> None:
    backend = name.partition("-")[0]
    with_range = shapes == "dynamic" and "model_inputs" not in BACKENDS[name] and backend != "ncnn"
    extra = f",{RANGE}" if with_range else ""
    size = "" if with_range else "onnx_config = dict(input_shape=[48, 32])"
    (configs / "mine.py").write_text(
        f"_base_ = ['./{shapes}.py']\nbackend_config = dict({BACKENDS[name]}{extra})\n{size}\n"
    )
    assert cli("config", "check", "mine.py").code == 0
    ran = cli("deploy", "net.py:build", "--config", "mine.py", "--work-dir", "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["verdict"] == "verified"
    artifact = eb.open_artifact(configs / "out")
    assert artifact.manifest.backend == backend
    assert [spec.name for spec in artifact.inputs] == ["input"]
    assert [spec.name for spec in artifact.outputs] == ["output"]
    wanted = ("batch", 3, "height", "width") if shapes == "dynamic" else (1, 3, 32, 48)
    assert artifact.inputs[0].dims == wanted
    sizes = {sample.inputs["input"].shape for sample in artifact.samples()}
    assert len(sizes) >= (5 if with_range else 1)
    assert artifact.manifest.receipt.precision == ("fp16" if name.endswith("fp16") else "fp32")
    assert artifact.manifest.model_files[0].startswith("end2end.")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("type='openvino', mo_options=dict(args={'--mean_values': [0]})",
         "mine.py:1:56: '--mean_values' was an argument of the Model Optimizer, which"),
        ("type='ncnn', use_vulcan=True", "mine.py:1:36: 'use_vulcan' is not a key of"),
        ("type='onnxruntime', common_config=dict(fp16_mod=True)",
         "mine.py:1:62: 'fp16_mod' is not a key of backend_config.common_config"),
        ("type='onnxruntime', precision='int4'",
         "mine.py:1:43: 'int4' does not fit backend_config.precision: expected one of 'fp32'"),
    ],
)  # fmt: skip
def test_unsupported_config_key_is_refused_with_its_place(
    cli: Run, configs: Path, section: str, message: str
) -> None:
    (configs / "mine.py").write_text(f"backend_config = dict({section})")
    ran = cli("deploy", "net.py:build", "--config", "mine.py")
    assert ran.code == 2
    assert ran.err.startswith(f"error: {message}")


PARTS = """
backend_config = dict(type='{}')
partition_config = dict(
    type='vacc_det',
    apply_marks=True,
    partition_cfg=[
        dict(
            save_file='backbone.onnx',
            start=['detector_forward:input'],
            end=['yolo_head:input'],
            output_names=['pred_maps.0'])
    ])
"""


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
def test_partition_config_cuts_the_model(cli: Run, configs: Path, backend: str) -> None:
    marked = NET.replace("(self.conv(img)", "(self.conv(eb.mark(img, 'detector_forward:input'))")
    marked = marked.replace("mean((2, 3)))", "mean((2, 3)), 'yolo_head:input'))")
    marked = marked.replace("self.head(self", "self.head(eb.mark(self")
    (configs / "net.py").write_text(f"import enginebay as eb\n{marked}")
    (configs / "mine.py").write_text(PARTS.format(backend))
    command = ["deploy", "net.py:build", "--config", "mine.py", "--input", "img=1x3x32x48"]
    ran = cli(*command, "--work-dir", "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["verdict"] == "verified"
    assert "the artifact contains every part" in ran.document["notes"][0]
    first, second = eb.open_artifact(configs / "out").manifest.parts
    assert [spec.name for spec in first.inputs] == ["img"]
    assert [spec.name for spec in second.inputs] == ["yolo_head:input"]


def test_partition_of_a_model_without_marks_is_refused(cli: Run, configs: Path) -> None:
    (configs / "mine.py").write_text(PARTS.format("onnxruntime"))
    ran = cli("deploy", "net.py:build", "--config", "mine.py", "--input", "img=1x3x32x48")
    assert ran.code == 2
    error, hint = ran.err.splitlines()[-2:]
    assert error == (
        "error: the graph cannot be cut at 'detector_forward:input' "
        "(partition_config.partition_cfg.0.start): it has no marks"
    )
    assert hint == "hint: mark a tensor in the model: x = enginebay.mark(x, name)"


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
def test_every_backend_has_a_convert_command(configs: Path, backend: str) -> None:
    import subprocess
    import sys

    import torch

    eb.export(torch.nn.ReLU(), torch.ones(1, 3), path=configs / "relu.onnx")
    tool = [sys.executable, "-m", f"enginebay_{backend}", "convert", "relu.onnx"]
    done = subprocess.run(
        [*tool, "--work-dir", "made", "--file-name", "net"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.stem for path in (configs / "made").glob("net.*")]
    done = subprocess.run([*tool[:-1], "none.onnx"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no file ")
