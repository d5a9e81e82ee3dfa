"""From a frozen module to one that pnnx and ncnn can do more with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay.authors import check_time_limit
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
            check_time_limit()
            result: Any = torch.jit.freeze(traced, optimize_numerics=False)
            _copy_repeated(result.graph)
    except (RuntimeError, TypeError, IndexError, ValueError) as err:
        reason = str(err).strip().splitlines()
        raise ConversionError(f"{type(err).__name__}: {reason[0] if reason else err!r}") from err
    finally:
        ATTENTION_APART.reset(token)
    save(result, target)
    return module.tables


def _copy_repeated(graph: Any) -> None:
    """Replace a tensor that one operator takes a second time by a copy.

    Where another operator takes such a tensor too, pnnx loses count of who reads it and writes
    outside of its memory.
    """
    for node in [*graph.nodes()]:
        found = set()
        for place, value in enumerate([*node.inputs()]):
            if value.debugName() in found and isinstance(value.type(), torch.TensorType):
                node.replaceInput(place, _copy(graph, value, node))
            found.add(value.debugName())


def _copy(graph: Any, value: Any, before: Any) -> Any:
    """Negate twice, which neither torch nor pnnx folds, and which keeps NaN and -0."""
    for _ in range(2):
        node = graph.create("aten::neg", [value])
        node.insertBefore(before)
        value = node.output()
    return value
