"""The rewriters of mmocr's models during an export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context

REWRITERS = eb.RewriterSet()


@REWRITERS.function("mmocr.models.textrecog.decoders.ABILanguageDecoder._get_length")
def get_length(ctx: Context, self: Any, logit: Tensor, dim: int = -1) -> Tensor:  # noqa: ARG001  # the same for every engine
    """Return the position after the first end symbol, or the length of the text without one.

    mmocr combines Boolean tensors with ``&``, which has no ONNX before operator set 18.
    """
    ends = (logit.argmax(-1) == self.dictionary.end_idx).int()
    before: Tensor = (ends.cumsum(dim) == 0).sum(dim)
    return (before + 1).clamp(max=logit.shape[1])
