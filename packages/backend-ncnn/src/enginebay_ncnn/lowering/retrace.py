"""From a frozen module to one that pnnx and ncnn can do more with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay.errors import ConversionError
from enginebay_ncnn.lowering import torch_internals
from enginebay_ncnn.lowering.arithmetic import ATTENTION_APART
from enginebay_ncnn.lowering.lowered import Lowered
from enginebay_ncnn.lowering.script import Script
from enginebay_ncnn.torchscript import quiet, save

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor


def retrace(
    frozen: Any, examples: Sequence[Tensor], target: Path, *, attention_apart: bool = False
) -> list[int]:
    """Trace a frozen module again, with lowerings in the operators' places.

    Args:
        frozen: The module.
        examples: Its inputs, whose sizes the result is bound to.
        target: The file to write.
        attention_apart: Keep pnnx from making one layer of each attention.

    Returns:
        Which inputs the file takes a second time, behind all others: as integers, for tables. In
        their own places all inputs are floats, and all outputs are too.

    Raises:
        ConversionError: An operator cannot be lowered.
    """
    torch_internals.check()
    floats = [tensor.float() for tensor in examples]
    token = ATTENTION_APART.set(attention_apart)
    try:
        with torch.no_grad(), quiet():
            module = Lowered(Script(frozen, examples))
            module(*floats, *(examples[place] for place in module.integers))
            module.integers = module.tables
            inputs = (*floats, *(examples[place].long() for place in module.tables))
            trace: Any = torch.jit.trace
            traced = trace(module, inputs, check_trace=False).eval()
            result: Any = torch.jit.freeze(traced, optimize_numerics=False)
    except (RuntimeError, TypeError, IndexError, ValueError) as err:
        reason = str(err).strip().splitlines()
        raise ConversionError(f"{type(err).__name__}: {reason[0] if reason else err!r}") from err
    finally:
        ATTENTION_APART.reset(token)
    save(result, target)
    return module.tables
