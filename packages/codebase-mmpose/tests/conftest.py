"""Small pose estimators of mmpose, and deploy configs like MMDeploy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from enginebay.hooks import ModelRequest
from enginebay_mmpose.plugin import model_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The arguments that make each model small, by the name of its config.
SMALL: dict[str, dict[str, Any]] = {
    "td-hm_res50_8xb64-210e_coco-256x192": {
        "backbone": {"depth": 18, "base_channels": 8},
        "head": {"in_channels": 64, "deconv_out_channels": (8, 8, 8)},
    },
    "td-hm_hrnet-w32_8xb64-210e_coco-256x192": {
        "backbone": {
            "extra": {
                "stage1": {"num_blocks": (1,), "num_channels": (8,)},
                "stage2": {"num_blocks": (1, 1), "num_channels": (4, 8)},
                "stage3": {"num_modules": 1, "num_blocks": (1,) * 3, "num_channels": (4, 8, 16)},
                "stage4": {
                    "num_modules": 1,
                    "num_blocks": (1,) * 4,
                    "num_channels": (4, 8, 16, 32),
                },
            }
        },
        "head": {"in_channels": 4},
    },
    "td-hm_mspn50_8xb32-210e_coco-256x192": {
        "backbone": {"unit_channels": 16, "num_blocks": [1, 1, 1, 1]},
        "head": {"unit_channels": 16},
    },
    "rtmpose-t_8xb256-420e_coco-256x192": {
        "backbone": {"widen_factor": 0.125},
        "head": {"in_channels": 128, "final_layer_kernel_size": 3},
    },
    "simcc_mobilenetv2_wo-deconv-8xb64-210e_coco-256x192": {
        "backbone": {"widen_factor": 0.25, "out_indices": (6,)},
        "head": {"in_channels": 80},
    },
}
# Of random weights, some boxes are below the threshold, and some overlap.
_TEST = {"score_thr": 0.5, "nms_thr": 0.3}
#: Of these, a model finds several people in an image of 128×128.
PEOPLE: dict[str, dict[str, Any]] = {
    "rtmo-s_8xb32-600e_coco-640x640": {
        "head": {"dcc_cfg": {"feat_channels": 32, "num_bins": (24, 32)}},
        "test_cfg": _TEST,
    },
    "yoloxpose_tiny_4xb64-300e_coco-416": {"test_cfg": _TEST},
}


@pytest.fixture
def build() -> Callable[..., Any]:
    """Return a function that builds a small model, with its image and task."""

    def build(name: str, size: tuple[int, int] | None = None, **section: Any) -> Any:
        section = {"arguments": (SMALL | PEOPLE).get(name, {}), **section}
        size = (128, 128) if name in PEOPLE else size
        shapes = {"input": (1, 3, *size)} if size else {}
        request = ModelRequest(name=name, codebase_config=section, input_shapes=shapes)
        return model_sources()["mmpose"](request)[:3]

    return build


CONFIG = """\
onnx_config = dict(
    type='onnx', export_params=True, keep_initializers_as_inputs=False, opset_version=11,
    save_file='end2end.onnx', input_names=['input'], output_names={outputs}, input_shape=None,
    optimize=True, dynamic_axes={axes})
codebase_config = dict(type='mmpose', task='PoseDetection')
backend_config = dict(type='{backend}')
"""
# The default exporter is tried first otherwise, and writes operator set 18.
EXPORTER = "export_config = dict(exporter='torchscript')\n"


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a backend's config like MMDeploy's configs."""

    def config(backend: str, *outputs: str, dynamic: bool = False) -> Path:
        path = tmp_path / f"pose-detection_{backend}.py"
        axes = {name: {0: "batch"} for name in ("input", *outputs)} if dynamic else None
        text = CONFIG.format(backend=backend, outputs=list(outputs), axes=axes)
        path.write_text(text + EXPORTER)
        return path

    return config
