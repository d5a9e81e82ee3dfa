"""``logsigmoid``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.common import rewriters

if TYPE_CHECKING:
    from enginebay.rewriting.rewriter import Context


# Both exporters write Log(Sigmoid(x)), which is -inf where the sigmoid is 0 in float32: below -88
# by ONNX's definition, and in an engine whose sigmoid stops earlier below -19.
@rewriters.symbolic("log_sigmoid", is_pytorch=True, ir="onnx")
def log_sigmoid(ctx: Context, g: Any, self: Any) -> Any:
    """Compute -softplus(-x), which is x far below 0."""
    return g.op("Neg", g.op("Softplus", g.op("Neg", self)))
