"""Recurrent networks, step by step, as torch takes them apart.

pnnx knows them as modules, of which nothing is left once a file is frozen.
"""

# ruff: noqa: D103 - each has the name and the arguments of its operator
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay_ncnn.lowerings.common import LACKING

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import LoweringContext

lowerings = eb.RewriterSet(backend="ncnn")

#: More steps than so many make a network that takes longer to load than to run.
_STEPS = 1024


@lowerings.lowering("aten.lstm.input", needs=LACKING)
@lowerings.lowering("aten.gru.input", needs=LACKING)
@lowerings.lowering("aten.rnn_tanh.input", needs=LACKING)
@lowerings.lowering("aten.rnn_relu.input", needs=LACKING)
def recurrent(ctx: LoweringContext, x: Tensor, *args: Any) -> Any:
    steps = x.shape[1 if args[-1] else 0]  # the last argument says whether the batch comes first
    if steps > _STEPS:
        raise ConversionError(f"a recurrent network of more than {_STEPS} steps: {steps}")
    return ctx.origin_op(x, *args)
