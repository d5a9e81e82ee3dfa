"""Options of the engine, and dimensions that stay open."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import FallbackError


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "options",
    [
        {"threads": 2, "light_mode": False},
        {"packing": False, "winograd": False},
        {"precision": "fp16", "fp16_arithmetic": True},
    ],
    ids=lambda options: "-".join(options),
)
def test_options_of_ncnn_are_applied(deploy, convolutions, options):
    deployed = deploy(*convolutions, params=options)
    assert deployed.verdict == "verified"
    with eb.load(deployed.artifact) as net:
        assert net.receipt.details["threads"] == str(options.get("threads", 1))
        assert net.receipt.precision == options.get("precision", "fp32")


def test_a_missing_vulkan_device_is_refused(deploy, convolutions):
    import ncnn

    device = f"vulkan:{ncnn.get_gpu_count()}"
    artifact = deploy(*convolutions).artifact
    with pytest.raises(FallbackError) as raised:
        eb.load(artifact, device=device)
    assert f"runs on 'cpu': {device} was requested but not found" in str(raised.value)


class Pyramid(nn.Module):
    """Sizes of the output that follow those of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, 2, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(torch.relu(self.down(x)))


def test_an_image_with_a_dynamic_size_is_verified(deploy):
    model = Pyramid().eval()
    deployed = deploy(
        model,
        torch.randn(1, 3, 16, 16),
        export={"ir": "torchscript"},
        dynamic={"x": {2: ("height", 8, 64), 3: ("width", 8, 64)}},
    )
    with eb.load(deployed.artifact) as net, torch.no_grad():
        for height, width in ((8, 8), (16, 24), (64, 32)):
            x = torch.randn(1, 3, height, width)
            torch.testing.assert_close(net({"x": x})["output"], model(x), rtol=1e-4, atol=1e-5)
