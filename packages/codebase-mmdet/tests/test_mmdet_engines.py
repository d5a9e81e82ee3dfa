"""Small detectors of mmdet through deploy configs like MMDeploy's, on three engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Noise, not square: the task maps it into the input.
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), np.uint8))
CASES = [
    ("retinanet_r18_fpn_1x_coco", "onnxruntime"),
    ("rtmdet_tiny_8xb32-300e_coco", "onnxruntime"),
    ("fcos_r50-caffe_fpn_gn-head_1x_coco", "openvino"),
    ("detr_r18_8xb2-500e_coco", "openvino"),
]


# The boxes of random weights take few sides of some conditions, and of mmcv's loop over boxes.
@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of mmdet's
@pytest.mark.parametrize(("name", "backend"), CASES)
def test_a_config_of_mmdeploy_deploys_a_detector(
    build: Callable[..., Any],
    config: Callable[[str], Path],
    tmp_path: Path,
    name: str,
    backend: str,
) -> None:
    compare = eb.VerifyOptions(compare={"dets,labels": "detections"})
    deployment = eb.deploy(
        build(name), config=config(backend), work_dir=tmp_path / "out", verify=compare
    )
    assert deployment.verdict == "verified"
    assert deployment.rewriting is not None
    assert deployment.rewriting.fired["enginebay_mmdet.detector.Detector"] == 1
    dets, labels = deployment.artifact.manifest.outputs
    assert (dets.name, len(dets.dims), dets.dims[::2]) == ("dets", 3, (1, 5))
    assert (labels.name, labels.dims) == ("labels", dets.dims[:2])
    assert isinstance(dets.dims[1], int)
    with eb.load(tmp_path / "out") as wrapper:
        found = wrapper.predict(PICTURE)
    assert all(0.5 <= box.score <= 1 and box.right <= 90 for box in found)


MASKED = [
    ("mask-rcnn_r50_fpn_1x_coco", "onnxruntime", ("float32", (1, 5, 28, 28))),
    ("rtmdet-ins_tiny_8xb32-300e_coco", "openvino", ("bool", (1, 100, 64, 64))),
]


# Random weights propose regions of few anchors, and take few sides of some conditions.
@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of mmdet's
@pytest.mark.parametrize(("name", "backend", "masks"), MASKED)
def test_a_config_of_mmdeploy_deploys_a_detector_with_masks(
    build: Callable[..., Any],
    config: Callable[..., Path],
    tmp_path: Path,
    name: str,
    backend: str,
    masks: tuple[str, tuple[int, ...]],
) -> None:
    deployment = eb.deploy(
        build(name, 64),
        config=config(backend, "masks"),
        work_dir=tmp_path / "out",
        verify=eb.VerifyOptions(compare={"dets,labels,masks": "detections"}),
    )
    assert deployment.verdict == "verified"
    *_, found = deployment.artifact.manifest.outputs
    assert (found.name, found.dtype, found.dims) == ("masks", *masks)
    with eb.load(tmp_path / "out") as wrapper:
        instances = wrapper.predict(PICTURE)
    assert instances.array.shape == (len(instances), 60, 90)
    assert [row.area for row in instances] == instances.array.sum((1, 2)).tolist()


# As above; and mmcv's loop over boxes takes long in the probes of each size, so here is one sample.
@pytest.mark.filterwarnings("ignore::enginebay.VerdictWarning")
@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of mmdet's
def test_both_stages_take_other_sizes(build: Callable[..., Any], tmp_path: Path) -> None:
    model = build("mask-rcnn_r50_fpn_1x_coco", 128)
    dynamic = ["batch", "input:2=96:160", "input:3=96:160"]
    ir = eb.export(model, path=tmp_path / "net.onnx", dynamic=dynamic)
    artifact = eb.convert(ir, backend="onnxruntime", work_dir=tmp_path / "out")
    images = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 96, 160), np.float32))
    options = {"compare": {"dets,labels,masks": "detections"}}
    with torch.no_grad():
        expected = model[0](images)
    assert (expected["labels"] >= 0).any()
    found = eb.verify(artifact, {"input": images}, expected, options=options)
    assert found.verdict == "verified", found.summary()


PARTITION = """\
partition_config = dict(
    type='yolov3_partition', apply_marks=True,
    partition_cfg=[dict(
        save_file='yolov3.onnx', start=['detector_forward:input'], end=['yolo_head:input'],
        output_names=['pred_maps.0', 'pred_maps.1', 'pred_maps.2'])])
"""


# Exponentials of random weights, on an input with ten times the spread.
@pytest.mark.filterwarnings("ignore:rounding alone decides:enginebay.VerdictWarning")
@pytest.mark.filterwarnings("ignore:.* condition:enginebay.VerdictWarning")
@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of mmdet's
def test_mmdeploys_partition_of_yolov3_cuts_before_the_decoding(
    build: Callable[..., Any], config: Callable[[str], Path], tmp_path: Path
) -> None:
    path = config("onnxruntime")
    path.write_text(path.read_text() + PARTITION)
    deployment = eb.deploy(
        build("yolov3_mobilenetv2_8xb24-320-300e_coco"),
        config=path,
        work_dir=tmp_path / "out",
        verify=eb.VerifyOptions(compare={"dets,labels": "detections"}),
    )
    assert deployment.verdict == "verified"
    first, second = deployment.artifact.manifest.parts
    assert [spec.dims[2:] for spec in first.outputs] == [(3, 3), (6, 6), (12, 12)]
    assert [spec.name for spec in second.outputs] == ["dets", "labels"]


@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of mmdet's
def test_ncnn_returns_every_candidate_box(
    build: Callable[..., Any], config: Callable[[str], Path], tmp_path: Path
) -> None:
    model, image, task = build("fcos_r50-caffe_fpn_gn-head_1x_coco", model_type="ncnn_end2end")
    task["threshold"] = 0.2
    deployment = eb.deploy((model, image, task), config=config("ncnn"), work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"
    (output,) = deployment.artifact.manifest.outputs
    assert (output.name, output.dims) == ("detection_output", (1, 194, 10))
    with eb.load(tmp_path / "out") as wrapper:
        found = wrapper.predict(PICTURE)
    assert found
    assert max(box.bottom for box in found) <= 60
