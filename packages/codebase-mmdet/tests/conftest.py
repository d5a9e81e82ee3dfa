"""mmdet as it imports here, its models built small, and deploy configs like MMDeploy's."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from tests.torchvision_shim import import_torchvision

from enginebay.hooks import ModelRequest
from enginebay_mmdet.plugin import model_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

if find_spec("mmdet"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are older than this Python and torch
        import_torchvision()
        from enginebay_mmdet.library import MMDET

        MMDET.load()

_FPN = {"backbone": {"depth": 18, "base_channels": 8}, "neck": {"in_channels": [8, 16, 32, 64]}}
_CSP = {
    "backbone": {"deepen_factor": 0.1, "widen_factor": 0.125},
    "neck": {"in_channels": [32, 64, 128], "out_channels": 32},
    "bbox_head": {"num_classes": 6, "in_channels": 32, "feat_channels": 32},
}
_LAYER = {"num_layers": 1, "layer_cfg": {"ffn_cfg": {"feedforward_channels": 64}}}
#: The arguments that make each model small, by the name of its config.
SMALL: dict[str, dict[str, Any]] = {
    "retinanet_r18_fpn_1x_coco": {
        "backbone": {"base_channels": 8},
        "neck": {"in_channels": [8, 16, 32, 64], "out_channels": 16},
        "bbox_head": {"num_classes": 6, "in_channels": 16, "feat_channels": 16, "stacked_convs": 1},
    },
    "fcos_r50-caffe_fpn_gn-head_1x_coco": {
        "backbone": {**_FPN["backbone"], "style": "pytorch"},
        "neck": {**_FPN["neck"], "out_channels": 64},
        "bbox_head": {"num_classes": 6, "in_channels": 64, "feat_channels": 64, "stacked_convs": 1},
    },
    "rtmdet_tiny_8xb32-300e_coco": _CSP,
    "yolox_tiny_8xb8-300e_coco": _CSP,
    "yolov3_mobilenetv2_8xb24-320-300e_coco": {"bbox_head": {"num_classes": 6}},
    "detr_r18_8xb2-500e_coco": {
        "backbone": {"base_channels": 8},
        "neck": {"in_channels": [64]},
        "num_queries": 20,
        "encoder": _LAYER,
        "decoder": _LAYER,
        "bbox_head": {"num_classes": 6},
        "test_cfg": {"max_per_img": 20},
    },
    "faster-rcnn_r50_fpn_1x_coco": {
        **_FPN,
        "neck": {**_FPN["neck"], "out_channels": 16},
        "rpn_head": {"in_channels": 16, "feat_channels": 16},
        "roi_head": {
            "bbox_roi_extractor": {"out_channels": 16},
            "bbox_head": {"in_channels": 16, "fc_out_channels": 32, "num_classes": 6},
        },
        "test_cfg": {"rpn": {"nms_pre": 100, "max_per_img": 50}},
    },
}

#: Before operator set 16, RoiAlign makes regions smaller than a feature as large as one. These
#: proposals are larger, and the second stage hardly changes them.
_ROIS = SMALL["faster-rcnn_r50_fpn_1x_coco"]
_STDS = {"bbox_coder": {"target_stds": [0.01, 0.01, 0.02, 0.02]}}
_MASK = {"in_channels": 16, "conv_out_channels": 16, "num_convs": 1, "num_classes": 6}
SMALL["mask-rcnn_r50_fpn_1x_coco"] = {
    **_ROIS,
    "roi_head": {
        "bbox_roi_extractor": {"out_channels": 16},
        "bbox_head": {**_ROIS["roi_head"]["bbox_head"], **_STDS},
        "mask_roi_extractor": {"out_channels": 16},
        "mask_head": _MASK,
    },
    "test_cfg": {
        "rpn": {"nms_pre": 10, "max_per_img": 10, "min_bbox_size": 8},
        "rcnn": {"max_per_img": 5},
    },
}
SMALL["rtmdet-ins_tiny_8xb32-300e_coco"] = _CSP


@pytest.fixture
def build() -> Callable[..., Any]:
    """Return a function that builds a small model, with its image."""

    def build(name: str, size: int = 96, **section: Any) -> Any:
        section = {"arguments": SMALL.get(name, {}), **section}
        shapes = {"input": (1, 3, size, size)}
        request = ModelRequest(name=name, codebase_config=section, input_shapes=shapes)
        return model_sources()["mmdet"](request)[:3]

    return build


CONFIG = """\
onnx_config = dict(
    type='onnx', export_params=True, keep_initializers_as_inputs=False, opset_version=11,
    save_file='end2end.onnx', input_names=['input'], output_names=%s, input_shape=None,
    optimize=True)
codebase_config = dict(
    type='mmdet', task='ObjectDetection', model_type='%s',
    post_processing=dict(
        score_threshold=0.05, confidence_threshold=0.005, iou_threshold=0.5,
        max_output_boxes_per_class=200, pre_top_k=5000, keep_top_k=100, background_label_id=-1))
backend_config = dict(type='%s')
"""
# The default exporter is tried first otherwise, and writes operator set 18.
EXPORTER = "export_config = dict(exporter='torchscript')\n"


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a backend's config like MMDeploy's static configs."""

    def config(backend: str, *masks: str) -> Path:
        kind = "ncnn_end2end" if backend == "ncnn" else "end2end"
        outputs = ["detection_output"] if backend == "ncnn" else ["dets", "labels", *masks]
        path = tmp_path / f"detection_{backend}_static.py"
        path.write_text(CONFIG % (outputs, kind, backend) + EXPORTER)
        return path

    return config
