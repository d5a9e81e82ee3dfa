"""The rewriter that replaces a classifier during an export."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from torch import Tensor, nn

import enginebay as eb

if TYPE_CHECKING:
    from enginebay.authors import Context
    from enginebay_mmpretrain.classifier import Classifier

REWRITERS = eb.RewriterSet()


@REWRITERS.module("enginebay_mmpretrain.classifier.Classifier")
class Deployed(nn.Module):
    """Module that returns the scores of ``Classifier``, and can be exported for any batch size.

    Args:
        ctx: The rewriter's context.
        module: The classifier.
    """

    def __init__(self, ctx: Context, module: Classifier) -> None:  # noqa: ARG002  # the same for every engine
        super().__init__()
        from mmpretrain.models.utils import ShiftWindowMSA

        self.network = deepcopy(module.network)  # the original computes the reference
        for part in self.network.modules():
            if isinstance(part, ShiftWindowMSA):
                part.window_reverse = _join_windows
        # RepVGG, MobileOne, LeViT … have branches that are only for training: they are fused.
        for part in self.network.children():
            if hasattr(part, "switch_to_deploy"):
                part.switch_to_deploy()

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name in the original
        """Return the same scores as ``Classifier.forward``."""
        from mmpretrain.models import MultiLabelClsHead

        # Not by predict, whose list of one result for each image fixes the batch size in a graph.
        logits = self.network(input)
        if isinstance(logits, tuple | list):  # one for each branch of a Conformer
            logits = sum(logits[1:], logits[0])
        is_multi_label = isinstance(getattr(self.network, "head", None), MultiLabelClsHead)
        scores: Tensor = logits.sigmoid() if is_multi_label else logits.softmax(1)
        return scores


def _join_windows(windows: Tensor, height: int, width: int, size: int) -> Tensor:
    """Join attention windows, ``N·rows·columns×size×size×C``, to feature maps, ``N×H×W×C``."""
    # mmpretrain's own function computes the batch size as a Python number: a constant in a trace.
    channels = windows.shape[-1]
    tiles = windows.view(-1, height // size, width // size, size, size, channels)
    return tiles.permute(0, 1, 3, 2, 4, 5).reshape(-1, height, width, channels)
