"""Small models of mmocr through deploy configs like MMDeploy's, on two engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import enginebay as eb

from .conftest import DETECTORS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CRNN = "crnn_mini-vgg_5e_mj"
#: Noise, not of an input's size: the task maps it into the input.
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 90, 3), np.uint8))


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", [*DETECTORS, CRNN])
def test_a_config_of_mmdeploy_deploys_a_model(
    build: Callable[..., Any], config: Callable[..., Path], tmp_path: Path, name: str, backend: str
) -> None:
    deployment = eb.deploy(build(name), config=config(backend, name), work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"
    (output,) = deployment.artifact.manifest.outputs
    assert output.name == "output"
    if name == CRNN:
        with eb.load(tmp_path / "out") as wrapper:
            (line,) = wrapper.predict(PICTURE)
        assert 0 <= line.score <= 1


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("dbnet_resnet18_fpnc_1200e_icdar2015", (2, 3, 96, 128)),
        (CRNN, (2, 1, 32, 160)),
    ],
)
def test_a_dynamic_config_makes_a_model_for_images_of_other_sizes(
    build: Callable[..., Any],
    config: Callable[..., Path],
    tmp_path: Path,
    name: str,
    shape: tuple[int, ...],
) -> None:
    model, image, task = build(name)
    deployment = eb.deploy(
        (model, image, task),
        config=config("onnxruntime", name, dynamic=True),
        work_dir=tmp_path / "out",
    )
    assert deployment.verdict == "verified"
    larger = np.random.default_rng(0).standard_normal(shape, np.float32)
    with eb.load(tmp_path / "out") as wrapper, torch.no_grad():
        wanted = model(torch.from_numpy(larger)).numpy()
        np.testing.assert_allclose(wrapper(larger), wanted, rtol=1e-3, atol=1e-4)
