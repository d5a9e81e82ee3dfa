"""Small segmenters of mmseg, and deploy configs like MMDeploy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from enginebay.hooks import ModelRequest
from enginebay_mmseg.plugin import model_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_RESNET = {"depth": 18, "base_channels": 8}
#: The arguments that make each model small, by the name of its config.
SMALL: dict[str, dict[str, Any]] = {
    "fcn_r50-d8_4xb2-40k_cityscapes-512x1024": {
        "backbone": _RESNET,
        "decode_head": {"in_channels": 64, "channels": 16},
        "auxiliary_head": {"in_channels": 32, "channels": 8},
    },
    "deeplabv3plus_r18-d8_4xb4-80k_isaid-896x896": {
        "backbone": {"base_channels": 8},
        "decode_head": {"in_channels": 64, "channels": 16, "c1_in_channels": 8, "c1_channels": 8},
        "auxiliary_head": {"in_channels": 32, "channels": 8},
    },
    "pspnet_r18-d8_4xb4-80k_isaid-896x896": {
        "backbone": {"base_channels": 8},
        "decode_head": {"in_channels": 64, "channels": 16},
        "auxiliary_head": {"in_channels": 32, "channels": 8},
    },
    "unet-s5-d16_fcn_4xb4-40k_drive-64x64": {
        "backbone": {"base_channels": 8},
        "decode_head": {"in_channels": 8, "channels": 8},
        "auxiliary_head": {"in_channels": 16, "channels": 8},
    },
    "segformer_mit-b0_8xb2-160k_ade20k-512x512": {
        "backbone": {"embed_dims": 8, "num_layers": [1, 1, 1, 1]},
        "decode_head": {"in_channels": [8, 16, 40, 64], "channels": 16},
    },
    "stdc1_4xb12-80k_cityscapes-512x1024": {},
}


@pytest.fixture
def build() -> Callable[..., Any]:
    """Return a function that builds a small model, with its image and task."""

    def build(name: str, size: int = 64, **section: Any) -> Any:
        section = {"arguments": SMALL.get(name, {}), **section}
        shapes = {"input": (1, 3, size, size)}
        request = ModelRequest(name=name, codebase_config=section, input_shapes=shapes)
        return model_sources()["mmseg"](request)[:3]

    return build


CONFIG = """\
onnx_config = dict(
    type='onnx', export_params=True, keep_initializers_as_inputs=False, opset_version=11,
    save_file='end2end.onnx', input_names=['input'], output_names=['output'], input_shape=None,
    optimize=True%s)
codebase_config = dict(type='mmseg', task='Segmentation')
backend_config = dict(type='%s')
"""
AXES = """,
    dynamic_axes={
        'input': {0: 'batch', 2: 'height', 3: 'width'},
        'output': {0: 'batch', 2: 'height', 3: 'width'}}"""
# The default exporter is tried first otherwise, and writes operator set 18.
EXPORTER = "export_config = dict(exporter='torchscript')\n"


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a backend's config like MMDeploy's configs."""

    def config(backend: str, *, dynamic: bool = False) -> Path:
        path = tmp_path / f"segmentation_{backend}.py"
        path.write_text(CONFIG % (AXES if dynamic else "", backend) + EXPORTER)
        return path

    return config
