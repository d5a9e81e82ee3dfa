"""The rewriter that replaces a segmenter during an export."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

import enginebay as eb

if TYPE_CHECKING:
    from enginebay.authors import Context
    from enginebay_mmseg.segmenter import Segmenter

REWRITERS = eb.RewriterSet()


@REWRITERS.module("enginebay_mmseg.segmenter.Segmenter")
class Deployed(nn.Module):
    """Module that returns the classes of ``Segmenter``, and can be exported for any image size.

    Args:
        ctx: The rewriter's context.
        module: The segmenter.
    """

    def __init__(self, ctx: Context, module: Segmenter) -> None:  # noqa: ARG002  # the same for every engine
        super().__init__()
        from mmseg.models.utils import Upsample

        self.segmenter = deepcopy(module)  # the original computes the reference
        for part in self.segmenter.modules():
            if isinstance(part, Upsample) and not part.size and part.scale_factor in range(2, 65):
                part.forward = partial(_enlarge, part)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name in the original
        """Return the same classes or scores as ``Segmenter.forward``."""
        classes: Tensor = self.segmenter(input)
        return classes


def _enlarge(part: Any, features: Tensor) -> Tensor:
    """Return feature maps, enlarged as by the ``Upsample`` of a UNet, an HRNet or an FPN."""
    # mmseg's own method converts each size to a Python number: a constant in a trace.
    size = [length * int(part.scale_factor) for length in features.shape[-2:]]
    return nn.functional.interpolate(features, size, None, part.mode, part.align_corners)
