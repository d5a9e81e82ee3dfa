"""Inputs of any strides, large enough that freed memory is used again at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from torch import nn, randn

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_a_channels_last_image_is_copied_correctly(
    deploy: Callable[..., eb.Deployment], kind: str
) -> None:
    deployed = deploy(nn.Conv2d(3, 4, 3), randn(1, 3, 32, 32), export={"input_names": ["image"]})
    with eb.load(deployed.artifact) as net:
        for _ in range(10):
            image = randn(1, 32, 32, 3).permute(0, 3, 1, 2)
            (wanted,) = net({"image": image.contiguous().numpy()}).values()
            (found,) = net({"image": image if kind == "tensor" else image.numpy()}).values()
            np.testing.assert_array_equal(np.asarray(found), wanted)
