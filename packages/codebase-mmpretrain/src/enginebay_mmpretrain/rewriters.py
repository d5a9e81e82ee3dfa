"""The rewriter that replaces a classifier while it is exported."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import Tensor, nn

import enginebay as eb

REWRITERS = eb.RewriterSet()


@REWRITERS.module("enginebay_mmpretrain.classifier.Classifier")
class Deployed(nn.Module):
    """The same scores, without mmpretrain's lists of results and with fused branches.

    mmpretrain predicts image by image, which fixes the size of the batch in an exported graph.
    Networks with branches that are only for training (RepVGG, MobileOne, LeViT …) are fused here.
    The windows of a Swin are joined for a batch of any size. All changes are made to a copy: the
    original computes the reference.

    Args:
        ctx: The rewriter's context.
        module: The classifier.
    """

    def __init__(self, ctx: Any, module: Any) -> None:  # noqa: ARG002  # the same for every engine
        super().__init__()
        from mmpretrain.models.utils import ShiftWindowMSA

        self.network = deepcopy(module.network)
        for part in self.network.modules():
            if isinstance(part, ShiftWindowMSA):
                part.window_reverse = _join_windows
        for part in self.network.children():
            if hasattr(part, "switch_to_deploy"):
                part.switch_to_deploy()

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name in the original
        """Compute the scores of ``Classifier.forward``."""
        from mmpretrain.models import MultiLabelClsHead

        logits = self.network(input)
        if isinstance(logits, tuple | list):  # one for each branch of a Conformer
            logits = sum(logits[1:], logits[0])
        several = isinstance(getattr(self.network, "head", None), MultiLabelClsHead)
        scores: Tensor = logits.sigmoid() if several else logits.softmax(1)
        return scores


def _join_windows(windows: Tensor, height: int, width: int, size: int) -> Tensor:
    """Join windows, ``N·rows·columns×size×size×C``, to feature maps, ``N×H×W×C``.

    mmpretrain's own function computes the batch size as a Python number, which becomes a
    constant in a trace.
    """
    channels = windows.shape[-1]
    tiles = windows.view(-1, height // size, width // size, size, size, channels)
    return tiles.permute(0, 1, 3, 2, 4, 5).reshape(-1, height, width, channels)
