"""Lowerings that unroll recurrent networks into the operators of all time steps.

Long sequences are rejected. pnnx converts LSTM and GRU only if they are modules, and a frozen
TorchScript file has no modules.
"""

# ruff: noqa: D103 - each takes the arguments of its operator
from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay_ncnn.lowerings.common import LACKING

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import LoweringContext

lowerings = eb.RewriterSet(backend="ncnn")

#: A network of more steps takes longer to load than to run.
_MAX_STEPS = 1024


@lowerings.lowering("aten.lstm.input", needs=LACKING)
@lowerings.lowering("aten.gru.input", needs=LACKING)
@lowerings.lowering("aten.rnn_tanh.input", needs=LACKING)
@lowerings.lowering("aten.rnn_relu.input", needs=LACKING)
def lower_recurrent(ctx: LoweringContext, x: Tensor, *args: object) -> object:
    steps = x.shape[1 if args[-1] else 0]  # the last argument is batch_first
    if steps > _MAX_STEPS:
        raise ConversionError(
            "the recurrent network has too many steps: "
            f"expected at most {_MAX_STEPS}, found {steps}"
        )
    return ctx.origin_op(x, *args)
