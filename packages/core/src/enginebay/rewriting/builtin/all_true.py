"""``_is_all_true``, which ``torch._check_tensor_all`` asks: the default exporter has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context, Target

#: ONNX's numbers for two types.
_INT32, _BOOL = 6, 9


def declare(rewriters: RewriterSet) -> None:
    """Add the symbolic."""
    rewriters.symbolic("_is_all_true", is_pytorch=True, ir="onnx", check=_dynamo)(is_all_true)


def _dynamo(target: Target) -> bool:
    return target.exporter != "torchscript"


def is_all_true(ctx: Context, g: Any, self: Any) -> Any:  # noqa: ARG001  # the operator's arguments
    """The nodes of ``aten::_is_all_true``: the smallest of the bools."""
    smallest = g.op("ReduceMin", g.op("Cast", self, to_i=_INT32), keepdims_i=0)
    return g.op("Cast", smallest, to_i=_BOOL)
