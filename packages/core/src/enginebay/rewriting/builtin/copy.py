"""``copy_``: one exporter has no translation, the other forgets to broadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the symbolic."""
    rewriters.symbolic("copy", is_pytorch=True, ir="onnx")(copy)


def copy(ctx: Context, g: Any, self: Any, src: Any, non_blocking: Any = None) -> Any:  # noqa: ARG001  # the operator's arguments
    """The nodes of ``aten::copy``: the source, with the dtype and the shape of the target."""
    return g.op("Expand", g.op("CastLike", src, self), g.op("Shape", self))
