"""Small pose estimators of mmpose through deploy configs like MMDeploy's, on three engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import enginebay as eb

from .conftest import PEOPLE, SMALL

#: Of mmpose's backbone for several people.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.autocast:FutureWarning")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Noise, not in the ratio of an input: the task maps it into the input.
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 60, 3), np.uint8))
RESNET, *_ = SMALL


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", SMALL)
def test_a_config_of_mmdeploy_deploys_an_estimator(
    build: Callable[..., Any], config: Callable[..., Path], tmp_path: Path, name: str, backend: str
) -> None:
    model = build(name)
    outputs = ["simcc_x", "simcc_y"] if name.startswith(("rtm", "simcc")) else ["output"]
    deployment = eb.deploy(model, config=config(backend, *outputs), work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"
    found = [output.name for output in deployment.artifact.manifest.outputs]
    assert found == outputs
    with eb.load(tmp_path / "out") as wrapper:
        points = wrapper.predict(PICTURE)
    assert [point.name for point in points[:2]] == ["nose", "left_eye"]
    assert len({(point.x, point.y) for point in points}) > 1


# Of random weights, some boxes have nearly the same score: their order is not the engine's fault.
@pytest.mark.filterwarnings("ignore:.*rounding alone decides:enginebay.VerdictWarning")
@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", PEOPLE)
def test_a_config_of_mmdeploy_deploys_a_model_for_several_people(
    build: Callable[..., Any], config: Callable[..., Path], tmp_path: Path, name: str, backend: str
) -> None:
    model, image, task = build(name, post_processing={"keep_top_k": 70})
    path = config(backend, "dets", "keypoints", dynamic=True)
    verify = eb.VerifyOptions(rtol=0.001)  # random weights round more than trained ones
    deployment = eb.deploy(
        (model, image, task), config=path, work_dir=tmp_path / "out", verify=verify
    )
    assert deployment.verdict == "verified"
    sizes = [output.dims for output in deployment.artifact.manifest.outputs]
    assert sizes == [("batch", 70, 5), ("batch", 70, 17, 3)]  # only the batch has a name
    images = np.random.default_rng(0).standard_normal((3, 3, 128, 128), np.float32)
    with eb.load(tmp_path / "out") as wrapper, torch.no_grad():
        found = wrapper({"input": images})
        wanted = model(torch.from_numpy(images))
        people = wrapper.predict(PICTURE)
    for output in ("dets", "keypoints"):
        np.testing.assert_allclose(found[output], wanted[output].numpy(), rtol=1e-3, atol=1e-2)
    assert {person.name for person in people} <= {"person"}


@pytest.mark.parametrize("name", [name for name in SMALL if name.startswith(("rtm", "simcc"))])
def test_only_the_batch_of_scores_has_a_name(
    build: Callable[..., Any], config: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    path = config("onnxruntime", "simcc_x", "simcc_y", dynamic=True)
    manifest = eb.deploy(build(name), config=path, work_dir=tmp_path / "out").artifact.manifest
    assert [output.dims for output in manifest.outputs] == [("batch", 17, 384), ("batch", 17, 512)]


def test_heatmaps_are_deployed_on_ncnn(
    build: Callable[..., Any], config: Callable[..., Path], tmp_path: Path
) -> None:
    pytest.importorskip("ncnn")
    path = config("ncnn", "output")
    assert eb.deploy(build(RESNET), config=path, work_dir=tmp_path / "out").verdict == "verified"
