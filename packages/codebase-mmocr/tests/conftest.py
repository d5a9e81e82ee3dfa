"""Small text detectors and recognisers of mmocr, and deploy configs like MMDeploy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from enginebay.hooks import ModelRequest
from enginebay_mmocr.plugin import model_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_RESNET = {"depth": 18, "base_channels": 8}
_LEVELS = [8, 16, 32, 64]
#: The arguments that make each detector small, by the name of its config.
DETECTORS: dict[str, dict[str, Any]] = {
    "dbnet_resnet18_fpnc_1200e_icdar2015": {
        "backbone": _RESNET,
        "neck": {"in_channels": _LEVELS, "lateral_channels": 16, "out_channels": 4},
        "det_head": {"in_channels": 16},
    },
    "panet_resnet18_fpem-ffm_600e_ctw1500": {
        "backbone": _RESNET,
        "neck": {"in_channels": _LEVELS, "conv_out": 16},
        "det_head": {"in_channels": [16] * 4, "hidden_dim": 16},
    },
    "psenet_resnet50_fpnf_600e_ctw1500": {
        "backbone": _RESNET,
        "neck": {"in_channels": _LEVELS},
        "det_head": {"hidden_dim": 16},
    },
    "textsnake_resnet50_fpn-unet_1200e_ctw1500": {
        "backbone": _RESNET,
        "neck": {"in_channels": _LEVELS, "out_channels": 8},
        "det_head": {"in_channels": 8},
    },
}
_SHORT = {"n_layers": 1, "max_seq_len": 5}
#: The same for recognisers.
RECOGNISERS: dict[str, dict[str, Any]] = {
    "crnn_mini-vgg_5e_mj": {},
    "abinet_20e_st-an_mj": {
        "encoder": {"n_layers": 1, "d_inner": 64},
        "decoder": {"num_iters": 1, "language_decoder": {"n_layers": 1, "d_inner": 64}},
    },
    "satrn_shallow-small_5e_st_mj": {"encoder": {"n_layers": 1}, "decoder": _SHORT},
    "sar_resnet31_parallel-decoder_5e_toy": {
        "backbone": {"layers": [1, 1, 1, 1]},
        "decoder": {"max_seq_len": 5},
    },
}


@pytest.fixture
def build() -> Callable[..., Any]:
    """Return a function that builds a small model, with its image and task."""

    def build(name: str, size: tuple[int, ...] = (), **section: Any) -> Any:
        section = {"arguments": {**DETECTORS, **RECOGNISERS}.get(name, {}), **section}
        if not size and name in DETECTORS:
            size = (3, 64, 64)
        shapes = {"input": (1, *size)} if size else {}
        request = ModelRequest(name=name, codebase_config=section, input_shapes=shapes)
        return model_sources()["mmocr"](request)[:3]

    return build


CONFIG = """\
onnx_config = dict(
    type='onnx', export_params=True, keep_initializers_as_inputs=False, opset_version=11,
    save_file='end2end.onnx', input_names=['input'], output_names=['output'], input_shape=None,
    optimize=True%s)
codebase_config = dict(type='mmocr', task='%s')
backend_config = dict(type='%s')
"""
DETECTION_AXES = """,
    dynamic_axes={
        'input': {0: 'batch', 2: 'height', 3: 'width'},
        'output': {0: 'batch', 2: 'height', 3: 'width'}}"""
RECOGNITION_AXES = """,
    dynamic_axes={
        'input': {0: 'batch', 3: 'width'},
        'output': {0: 'batch', 1: 'seq_len', 2: 'num_classes'}}"""
# The default exporter is tried first otherwise, and writes operator set 18.
EXPORTER = "export_config = dict(exporter='torchscript')\n"


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a backend's config like MMDeploy's configs."""

    def config(backend: str, name: str, *, dynamic: bool = False) -> Path:
        task = "TextDetection" if name in DETECTORS else "TextRecognition"
        axes = DETECTION_AXES if name in DETECTORS else RECOGNITION_AXES
        path = tmp_path / f"text_{backend}.py"
        path.write_text(CONFIG % (axes if dynamic else "", task, backend) + EXPORTER)
        return path

    return config
