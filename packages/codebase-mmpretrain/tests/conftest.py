"""Shared fixtures: MMDeploy's configs, and mmpretrain as it imports here."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.torchvision_shim import import_torchvision

if find_spec("mmpretrain"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are older than this Python and torch
        import_torchvision()
        import mmpretrain

        mmpretrain.list_models()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--configs", help="MMDeploy's own folder of configs")


EXPORT = """\
onnx_config = dict(
    type='onnx', export_params=True, keep_initializers_as_inputs=False, opset_version=11,
    save_file='end2end.onnx', input_names=['input'], output_names=['output'], input_shape=None,
    optimize=True)
codebase_config = dict(type='mmpretrain', task='Classification')
"""
AXES = """\
_base_ = ['./classification_static.py']
onnx_config = dict(
    dynamic_axes={'input': {0: 'batch', 2: 'height', 3: 'width'}, 'output': {0: 'batch'}})
"""
ENGINE = """\
_base_ = ['./classification_static.py']
backend_config = dict(%s)
"""
DYNAMIC = """\
_base_ = ['./classification_dynamic.py']
onnx_config = dict(input_shape=None)
backend_config = dict(
    type='openvino', model_inputs=[dict(opt_shapes=dict(input=[1, 3, 224, 224]))])
"""


@pytest.fixture(scope="session")
def configs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MMDeploy's configs for mmpretrain, or files of the same names and content."""
    if given := pytestconfig.getoption("--configs"):
        return Path(given) / "mmpretrain"
    folder = tmp_path_factory.mktemp("mmpretrain")
    files = {
        "static": EXPORT,
        "dynamic": AXES,
        "onnxruntime_static": ENGINE % "type='onnxruntime'",
        "ncnn_static": ENGINE % "type='ncnn', precision='FP32', use_vulkan=False",
        "openvino_dynamic-224x224": DYNAMIC,
    }
    for name, text in files.items():
        (folder / f"classification_{name}.py").write_text(text)
    return folder
