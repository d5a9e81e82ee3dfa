"""Detectors of mmdet as they are deployed, without an engine, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay.authors.sources import read_task

from .conftest import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NAMES = (
    "retinanet_r18_fpn_1x_coco",
    "fcos_r50-caffe_fpn_gn-head_1x_coco",
    "rtmdet_tiny_8xb32-300e_coco",
    "yolox_tiny_8xb8-300e_coco",
    "detr_r18_8xb2-500e_coco",
    "faster-rcnn_r50_fpn_1x_coco",
)


@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of mmdet's
@pytest.mark.parametrize("name", NAMES)
def test_the_rewritten_detector_finds_the_same_objects(
    build: Callable[..., Any], name: str
) -> None:
    model, image, _ = build(name)
    images = torch.cat([image, torch.randn_like(image)])
    with torch.no_grad():
        dets, labels = model(images).values()
        with eb.rewrite(model, backend=None) as rewriting:
            found, kinds = rewriting.model(images).values()
    assert dets.shape == (2, model.rows, 5)
    assert (dets[..., 4] > 0).any()
    assert torch.equal(dets[..., 4] > 0, kinds >= 0)
    torch.testing.assert_close(found[..., 4], dets[..., 4], rtol=1e-3, atol=1e-4)
    same = (labels == kinds) & torch.isclose(found, dets, rtol=1e-2, atol=0.05).all(-1)
    assert same.float().mean() > 0.95  # two of nearly the same score may change places


@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of mmdet's
def test_the_rewritten_detector_returns_the_same_masks(build: Callable[..., Any]) -> None:
    """Of each box of each image, by mmdet's own head, and 0 for padding."""
    model, image, _ = build("mask-rcnn_r50_fpn_1x_coco", 64)
    model.network.test_cfg.rcnn.score_thr = model.network.roi_head.test_cfg.score_thr = 0.19
    images = torch.cat([image, torch.randn_like(image)])
    with torch.no_grad():
        _, labels, masks = model(images).values()
        with eb.rewrite(model, backend=None) as rewriting:
            _, kinds, found = rewriting.model(images).values()
    assert masks.shape == (2, 5, 28, 28)
    assert (labels < 0).any()
    assert (labels >= 0).sum() > 1
    assert torch.equal(labels, kinds)
    torch.testing.assert_close(found, masks, rtol=1e-3, atol=1e-4)
    assert not found[labels < 0].any()
    assert found[labels >= 0].std() > 0.01


def test_masks_that_cannot_be_exported_are_refused(build: Callable[..., Any]) -> None:
    message, hint = fault(build, "cascade-mask-rcnn_r50_fpn_1x_coco")
    assert message == (
        "'cascade-mask-rcnn_r50_fpn_1x_coco' has masks that cannot be exported: of CascadeRoIHead "
        "and ModuleList"
    )
    assert hint == "the masks of StandardRoIHead with FCNMaskHead, and of RTMDet-Ins, can be"
    section = {"post_processing": {"export_postprocess_mask": True}}
    message, hint = fault(build, "mask-rcnn_r50_fpn_1x_coco", **section)
    assert message == (
        "codebase_config.post_processing.export_postprocess_mask: True is not for "
        "'mask-rcnn_r50_fpn_1x_coco', whose masks are exported as they lie in the boxes"
    )
    assert hint == "set export_postprocess_mask=False"


@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of mmdet's
@pytest.mark.parametrize("name", NAMES[:4])
def test_the_task_selects_candidates_like_mmdet(build: Callable[..., Any], name: str) -> None:
    """The detector with suppression and the task on all candidates find the same boxes."""
    both = []
    for kind in ("end2end", "ncnn_end2end"):
        model, image, task = build(name, model_type=kind)
        task |= {"boxes": "dets", "threshold": 0.3}
        with torch.no_grad():
            found = model(image)
        outputs = found if isinstance(found, dict) else {"dets": found}
        arrays = {key: value.numpy() for key, value in outputs.items()}
        both.append(read_task(task).postprocess(arrays, (96, 96)))
    rows = [
        [(box.index, box.score, box.left, box.bottom) for box in boxes if _has_area(box)]
        for boxes in both
    ]
    count = min(map(len, rows))  # those without an area, which mmdet drops, count for the task
    assert count >= 5
    np.testing.assert_allclose(rows[0][:count], rows[1][:count], rtol=1e-4, atol=1e-4)


def _has_area(box: Any) -> bool:
    return bool(box.left < box.right and box.top < box.bottom)


def test_the_task_prepares_images_like_the_pipeline(
    build: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "_base_ = ['mmdet::retinanet/retinanet_r18_fpn_1x_coco.py']\n"
        "test_dataloader = dict(dataset=dict(metainfo=dict(classes=('cat', 'dog'))))\n"
    )
    small = SMALL["retinanet_r18_fpn_1x_coco"]
    head = {**small["bbox_head"], "num_classes": 2}
    _, _, task = build(str(path), arguments={**small, "bbox_head": head})
    assert task["classes"] == ["cat", "dog"]
    image = read_task(task).image
    assert (image.channels, image.scale, image.mean) == ("RGB", 1, (123.675, 116.28, 103.53))
    assert image.place(192, 96) == (96, 96, 0.5, 0.5, 0, 0)
    image = read_task(build("yolox_tiny_8xb8-300e_coco")[2]).image
    assert (image.channels, image.mean, image.steps[1].fill) == ("BGR", (0,), (114, 114, 114))


def fault(build: Callable[..., Any], name: str, **section: Any) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        build(name, **section)
    return str(caught.value), caught.value.hint


WANTED = "expected a detector of mmdet: model = dict(type='RetinaNet', backbone=…, bbox_head=…)"


def test_unknown_names_and_published_weights_are_refused(build: Callable[..., Any]) -> None:
    message, hint = fault(build, "retinanet_r18_fpn")
    assert message == "mmdet 3.5.1 has no model 'retinanet_r18_fpn'"
    assert hint == (
        "similar names: retinanet_r18_fpn_1x_coco, retinanet_r18_fpn_1xb8-1x_coco, "
        "retinanet_r18_fpn_8xb8-amp-lsj-200e_coco"
    )
    assert fault(build, "none.py") == ("no file 'none.py'", None)
    message, hint = fault(build, "retinanet_r18_fpn_1x_coco", pretrained=True)
    assert message == "mmdet's published weights are not downloaded automatically"
    assert hint is not None
    assert hint.endswith("--weights FILE")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = dict(type='ResNet')", "'bad.py' is of type 'ResNet', not a detector"),
        ("model = dict(type='mmx.Net')", "'bad.py' is of type 'mmx.Net', not a detector"),
        ("onnx_config = dict(type='onnx')", "'bad.py' contains no model"),
    ],
)
def test_configs_without_a_detector_are_refused(
    build: Callable[..., Any], text: str, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(text)
    assert fault(build, "bad.py") == (message, WANTED)


def test_a_config_needs_no_test_cfg(
    build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "part.py").write_text(
        "model = dict(type='RetinaNet', backbone=dict(type='ResNetV9'), neck=None, bbox_head={})"
    )
    message, _ = fault(build, "part.py")
    assert message.startswith("'part.py' cannot be built: KeyError: 'ResNetV9 is not in the mmdet")
    model, image, _ = build(
        "detr_r18_8xb2-500e_coco", arguments={**SMALL["detr_r18_8xb2-500e_coco"], "test_cfg": None}
    )
    assert model(image)["dets"].shape == (1, 20, 5)


def test_all_unsupported_operators_are_named(build: Callable[..., Any]) -> None:
    changes = {"test_cfg": {"rcnn": {"nms": {"type": "soft_nms"}}}}
    message, hint = fault(build, "faster-rcnn_r50-dconv-c3-c5_fpn_1x_coco", arguments=changes)
    assert message == (
        "'faster-rcnn_r50-dconv-c3-c5_fpn_1x_coco' requires operators of mmcv that cannot be "
        "replaced: DeformConv2dPack, soft_nms"
    )
    assert hint == "operators with a replacement: MultiScaleDeformableAttention, RoIAlign, nms"


def test_unknown_and_unused_post_processing_keys_are_reported(
    build: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    message, hint = fault(build, "retinanet_r18_fpn_1x_coco", post_processing={"keep_topk": 9})
    assert message == (
        "codebase_config.post_processing: 'keep_topk' is not a known key; available: "
        "score_threshold, iou_threshold, keep_top_k, confidence_threshold, "
        "max_output_boxes_per_class, pre_top_k, background_label_id, export_postprocess_mask"
    )
    assert hint == "did you mean 'keep_top_k'?"
    given = {"score_threshold": 0.1, "pre_top_k": 5000, "background_label_id": -1}
    build("retinanet_r18_fpn_1x_coco", post_processing=given)
    assert caplog.messages == [
        "codebase_config.post_processing: keys without effect: pre_top_k, background_label_id"
    ]


def test_unsuitable_model_types_are_refused(build: Callable[..., Any]) -> None:
    message, _ = fault(build, "retinanet_r18_fpn_1x_coco", type="mmdet", model_type="end2edn")
    assert message == (
        "codebase_config.model_type: 'end2edn' is not a model_type of mmdet; available: end2end, "
        "ncnn_end2end"
    )
    message, hint = fault(build, "faster-rcnn_r50_fpn_1x_coco", model_type="ncnn_end2end")
    assert message == (
        "codebase_config.model_type: 'ncnn_end2end' is for single-stage detectors, but the model "
        "is a FasterRCNN"
    )
    assert hint == "use model_type='end2end' and another backend"
