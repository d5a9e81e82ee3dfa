"""The rewriter that replaces a classifier while it is exported."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import Tensor, nn

import enginebay as eb

REWRITERS = eb.RewriterSet()


@REWRITERS.module("enginebay_mmpretrain.classifier.Classifier")
class Deployed(nn.Module):
    """The same scores without mmpretrain's lists of results, and with its branches fused.

    mmpretrain predicts image by image, which fixes the size of the batch in an exported graph.
    Networks that train with more branches than they need afterwards (RepVGG, MobileOne, LeViT …)
    fuse them here. The windows of a Swin are joined for a batch of any size. All of it is done
    on a copy: the original gives the reference.

    Args:
        ctx: The rewriter's context.
        module: The classifier.
    """

    def __init__(self, ctx: Any, module: Any) -> None:  # noqa: ARG002  # it is the same for every engine
        super().__init__()
        from mmpretrain.models.utils import ShiftWindowMSA

        self.network = deepcopy(module.network)
        for part in self.network.modules():
            if isinstance(part, ShiftWindowMSA):
                part.window_reverse = _join_windows
        for part in self.network.children():
            if hasattr(part, "switch_to_deploy"):
                part.switch_to_deploy()

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # as the original has it
        """Compute the scores of ``Classifier.forward``."""
        from mmpretrain.models import MultiLabelClsHead

        found = self.network(input)
        if isinstance(found, tuple | list):  # one for each branch of a Conformer
            found = sum(found[1:], found[0])
        several = isinstance(getattr(self.network, "head", None), MultiLabelClsHead)
        scores: Tensor = found.sigmoid() if several else found.softmax(1)
        return scores


def _join_windows(windows: Tensor, height: int, width: int, size: int) -> Tensor:
    """Join windows, ``N·rows·columns×size×size×C``, to feature maps, ``N×H×W×C``.

    mmpretrain's own function computes the batch size as a Python number, which a trace keeps as
    a constant.
    """
    channels = windows.shape[-1]
    tiles = windows.view(-1, height // size, width // size, size, size, channels)
    return tiles.permute(0, 1, 3, 2, 4, 5).reshape(-1, height, width, channels)
