"""Small segmenters of mmseg through deploy configs like MMDeploy's, on two engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import enginebay as eb

from .conftest import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Noise, not square: the task maps it into the input.
PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 90, 3), np.uint8))


# Of classes with random weights, a few win nowhere.
@pytest.mark.filterwarnings("ignore:.*occur in no sample:enginebay.VerdictWarning")
@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("name", SMALL)
def test_a_config_of_mmdeploy_deploys_a_segmenter(
    build: Callable[..., Any], config: Callable[..., Path], tmp_path: Path, name: str, backend: str
) -> None:
    compare = eb.VerifyOptions(compare={"output": "class-map"})
    deployment = eb.deploy(
        build(name), config=config(backend), work_dir=tmp_path / "out", verify=compare
    )
    assert deployment.verdict == "verified"
    assert deployment.rewriting is not None
    assert deployment.rewriting.fired["enginebay_mmseg.segmenter.Segmenter"] == 1
    (output,) = deployment.artifact.manifest.outputs
    assert (output.name, output.dims) == ("output", (1, 1, 64, 64))
    with eb.load(tmp_path / "out") as wrapper:
        found = wrapper.predict(PICTURE)
    assert found.array.shape == (60, 90)
    assert sum(segment.share for segment in found) == pytest.approx(1)


def test_a_unet_takes_images_of_any_size(
    build: Callable[..., Any], config: Callable[..., Path], tmp_path: Path
) -> None:
    """mmseg's Upsample makes each size a constant in a trace."""
    model, image, _ = build("unet-s5-d16_fcn_4xb4-40k_drive-64x64")
    compare = eb.VerifyOptions(compare={"output": "class-map"})
    deployment = eb.deploy(
        (model, image),
        config=config("onnxruntime", dynamic=True),
        work_dir=tmp_path / "out",
        verify=compare,
    )
    assert deployment.verdict == "verified"
    larger = np.random.default_rng(0).standard_normal((2, 3, 96, 128), np.float32)
    with eb.load(tmp_path / "out") as wrapper, torch.no_grad():
        found = wrapper(larger)
        wanted = model(torch.from_numpy(larger)).numpy()
    assert (found != wanted).mean() < 0.001
