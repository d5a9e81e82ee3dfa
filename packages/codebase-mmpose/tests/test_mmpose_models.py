"""Pose estimators of mmpose as they are deployed, without an engine, and refusals."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mmpose
import numpy as np
import pytest
import torch
from mmpose.structures import PoseDataSample

import enginebay as eb
from enginebay.authors.sources import read_task

from .conftest import PEOPLE, SMALL

#: Of mmpose's backbone for several people.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.autocast:FutureWarning")

if TYPE_CHECKING:
    from collections.abc import Callable

#: The configs in mmpose's wheel.
CONFIGS = Path(mmpose.__path__[0]) / ".mim" / "configs"
RESNET = "td-hm_res50_8xb64-210e_coco-256x192"
RTMPOSE = "rtmpose-t_8xb256-420e_coco-256x192"
RTMO = "rtmo-s_8xb32-600e_coco-640x640"
RLE = "td-reg_mobilenetv2_rle-pretrained-8xb64-210e_coco-256x192"


@pytest.mark.parametrize("name", [*SMALL, RLE])
def test_the_outputs_are_those_of_mmpose(build: Callable[..., Any], name: str) -> None:
    model, image, _ = build(name)
    images = torch.cat([image, torch.randn_like(image)])
    with torch.no_grad():
        found = model(images)
        wanted = model.network(images, None, mode="tensor")
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    if isinstance(wanted[0], list):  # a head with several stages: the last counts
        wanted = (wanted[0][-1],)
    assert list(found) == (["simcc_x", "simcc_y"] if len(wanted) == 2 else ["output"])
    for output, tensor in zip(found.values(), wanted, strict=True):
        assert torch.equal(output, tensor)
        first, second = output
        # Random weights tell images apart, in every point.
        assert ((first - second).flatten(1).std(1) > 0.05 * first.flatten(1).std(1)).all()


@pytest.mark.parametrize("name", [RESNET, RTMPOSE])
def test_the_task_finds_the_points_that_mmpose_finds(build: Callable[..., Any], name: str) -> None:
    model, image, task = build(name)
    with torch.no_grad():
        outputs = model(image)
        values = tuple(outputs.values())
        (wanted,) = model.network.head.decode(values if len(values) > 1 else values[0])
    specs = [eb.TensorSpec(key, "float32", tuple(value.shape)) for key, value in outputs.items()]
    fitted = read_task(task).fit([eb.TensorSpec("input", "float32", tuple(image.shape))], specs)
    found = fitted.postprocess({key: value.numpy() for key, value in outputs.items()}, (192, 256))
    assert [point.name for point in found[:2]] == ["nose", "left_eye"]
    points = np.array([(point.x, point.y) for point in found])
    assert points == pytest.approx(wanted.keypoints[0], abs=1e-3)
    scores = np.array([point.score for point in found])
    assert scores == pytest.approx(wanted.keypoint_scores[0], rel=1e-6)


def test_the_task_prepares_images_like_mmpose(build: Callable[..., Any]) -> None:
    task = read_task(build(RESNET)[2])
    assert (len(task.classes), len(task.skeleton), len(task.sigmas)) == (17, 19, 17)
    image = task.image
    assert (image.channels, image.scale, image.mean) == ("RGB", 1, (123.675, 116.28, 103.53))
    assert image.size == (256, 192)
    assert image.place(100, 100)[:2] == (192, 256)
    task = read_task(build(RTMO)[2])
    assert (task.boxes, task.classes, task.image.channels) == ("dets", ("person",), "BGR")
    assert task.image.steps[1].fill == (114, 114, 114)
    assert build(RLE)[2] is None


def test_a_config_of_your_own_names_its_points(build: Callable[..., Any], tmp_path: Path) -> None:
    base = CONFIGS / "body_2d_keypoint" / "topdown_heatmap" / "coco" / f"{RESNET}.py"
    path = tmp_path / "mine.py"
    path.write_text(
        f"_base_ = {str(base)!r}\n"
        "points = {i: dict(name=f'p{i}', id=i, color=[0] * 3, type='', swap='') for i in (0, 1)}\n"
        "links = {0: dict(link=('p0', 'p1'), id=0, color=[0, 0, 0])}\n"
        "test_dataloader = dict(dataset=dict(metainfo=dict(dataset_name='mine',\n"
        "    keypoint_info=points, skeleton_info=links, joint_weights=[1] * 2, sigmas=[0.1, 0.2])))"
    )
    _, _, task = build(str(path), arguments={"head": {"out_channels": 2}})
    assert (task["classes"], task["skeleton"]) == (["p0", "p1"], [[0, 1]])
    assert task["sigmas"] == [pytest.approx(0.1), pytest.approx(0.2)]
    _, _, task = build(str(path), arguments={"head": {"out_channels": 3}})
    assert "classes" not in task


@pytest.mark.parametrize("name", PEOPLE)
def test_the_people_are_those_that_mmpose_finds(build: Callable[..., Any], name: str) -> None:
    """mmpose finds them image by image, and returns as many rows as there are people."""
    # The threshold of the model's config comes first. There are 336 or 80 boxes.
    section = {"keep_top_k": 400, "score_threshold": 0.9}
    model, image, _ = build(name, post_processing=section)
    images = torch.cat([image, torch.randn_like(image)])
    head = model.network.head
    samples = [PoseDataSample(metainfo={"input_size": (128, 128)}) for _ in images]
    with torch.no_grad():
        found = model(images)
        wanted = head.predict(model.network.extract_feat(images), samples, head.test_cfg)
    assert found["keypoints"].shape == (2, 400, 17, 3)
    for dets, points, people in zip(found["dets"], found["keypoints"], wanted, strict=True):
        count = len(people.scores)
        assert 2 < count < 336
        boxes = np.column_stack([people.bboxes, people.scores])
        np.testing.assert_allclose(dets[:count], boxes, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(points[:count, :, :2], people.keypoints, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(points[:count, :, 2], people.keypoint_scores, rtol=1e-5)
        assert not dets[count:].any()
        assert not points[count:].any()


def fault(build: Callable[..., Any], name: str, *size: Any, **section: Any) -> tuple[str, Any]:
    with pytest.raises(eb.EnginebayError) as caught:
        build(name, *size, **section)
    return str(caught.value), caught.value.hint


WANTED = (
    "expected a pose estimator of mmpose: model = dict(type='TopdownPoseEstimator', backbone=…, "
    "head=…)"
)


def test_unknown_names_and_published_weights_are_refused(build: Callable[..., Any]) -> None:
    message, hint = fault(build, "rtmpose-t")
    assert message == f"mmpose {mmpose.__version__} has no model 'rtmpose-t'"
    assert hint.startswith("similar names: rtmpose-t_")
    assert fault(build, "none.py") == ("no file 'none.py'", None)
    message, hint = fault(build, RESNET, pretrained=True)
    assert message == "mmpose's published weights are not downloaded automatically"
    assert hint.endswith("--weights FILE")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = dict(type='ResNet')", "'bad.py' is of type 'ResNet', not a pose estimator"),
        ("model = dict(type='mmx.Net')", "'bad.py' is of type 'mmx.Net', not a pose estimator"),
        ("onnx_config = dict(type='onnx')", "'bad.py' contains no model"),
    ],
)
def test_configs_without_an_estimator_are_refused(
    build: Callable[..., Any], text: str, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(text)
    assert fault(build, "bad.py") == (message, WANTED)


def test_estimators_with_other_outputs_are_refused(build: Callable[..., Any]) -> None:
    name = "ae_hrnet-w32_8xb24-300e_coco-512x512"
    message, hint = fault(build, name)
    assert message == f"'{name}' has a head that cannot be deployed: AssociativeEmbeddingHead"
    assert hint.startswith("heads that can be deployed: HeatmapHead, CPMHead, ")
    name = "dwpose_l_dis_m_coco-256x192"
    message, _ = fault(build, name)
    assert message == f"'{name}' is of type 'DWPoseDistiller', not a pose estimator"


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_config_of_which_the_library_lacks_a_part_is_refused(
    build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.py").write_text(
        "model = dict(type='TopdownPoseEstimator', backbone=dict(type='GoneNet'), head=None)"
    )
    message, _ = fault(build, "old.py")
    assert message.startswith("'old.py' cannot be built: KeyError: ")
    assert "GoneNet" in message
    (tmp_path / "old.py").write_text("_base_ = 'gone.py'")
    message, _ = fault(build, "old.py")
    assert message.startswith("the config of 'old.py' cannot be loaded: FileNotFoundError: ")
    gc.collect()  # mmengine leaves its copy of such a config open


def test_arguments_that_do_not_fit_are_refused(build: Callable[..., Any]) -> None:
    message, _ = fault(build, RESNET, arguments={"head": {"out_chanels": 3}})
    assert message.startswith(f"'{RESNET}' cannot be built: TypeError: ")
    assert "'out_chanels'" in message


def test_a_size_that_the_head_cannot_take_is_refused(build: Callable[..., Any]) -> None:
    message, hint = fault(build, RTMPOSE, (128, 128))
    assert message.startswith(f"'{RTMPOSE}' is not for images of 3x128x128: RuntimeError: ")
    assert hint.endswith("are made for one, such as 3x256x192")
    # Heatmaps are for any size.
    assert build(RESNET, (128, 128))[1].shape == (1, 3, 128, 128)


def test_weights_of_another_number_of_points_are_refused(
    build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, image, _ = build(RESNET)
    meta = {"dataset_meta": {"dataset_name": "coco"}}
    torch.save({"state_dict": model.network.state_dict(), "meta": meta}, "coco.pth")
    loaded, _, _ = build(RESNET, checkpoint="coco.pth")
    assert torch.equal(loaded(image)["output"], model(image)["output"])
    arguments = {**SMALL[RESNET], "head": {**SMALL[RESNET]["head"], "out_channels": 16}}
    message, _ = fault(build, RESNET, checkpoint="coco.pth", arguments=arguments)
    assert message.startswith("'coco.pth' does not fit TopdownPoseEstimator: ")
    assert "head.final_layer.weight" in message
    assert "[17, 8, 1, 1]" in message
