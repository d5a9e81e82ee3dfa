"""``fold``: the TorchScript exporter refuses a size that it takes from another tensor's shape.

It asks how many entries the size has, which of a computed one it does not know. There are two, as
many as ``F.fold`` has dimensions. Nor does it add the batch that ``Col2Im`` wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import not_dynamo
from enginebay.rewriting.builtin.unbatched import squeezed, unsqueezed

if TYPE_CHECKING:
    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the symbolic."""
    given = ("v", "v", "v", "is", "is", "is")
    symbolic = rewriters.symbolic(
        "col2im", is_pytorch=True, arg_descriptors=given, ir="onnx", check=not_dynamo
    )
    symbolic(col2im)


def col2im(
    ctx: Context,  # noqa: ARG001  # a symbolic's first argument
    g: Any,
    self: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Any:
    """The node of ``aten::col2im``."""
    unbatched = self.type().dim() == 2
    image = g.op(
        "Col2Im",
        unsqueezed(g, self) if unbatched else self,
        output_size,
        kernel_size,
        dilations_i=dilation,
        pads_i=[*padding, *padding],
        strides_i=stride,
    )
    return squeezed(g, image) if unbatched else image
