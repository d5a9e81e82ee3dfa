"""The ``ctx`` argument of a lowering: the target, and facts about the operator's arguments."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  # msgspec reads the annotations
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.rewriter import Target

if TYPE_CHECKING:
    import torch

    from enginebay.tensors import NumpyArray


class NoConstantError(Exception):
    """``value_of`` was called for a tensor that is not constant; becomes a RewriterError."""


class LoweringContext(Target, frozen=True, kw_only=True):
    """The first argument of every lowering: the target, and facts about the graph's tensors.

    Besides ``origin_op``, it has the attributes of :class:`~enginebay.rewriting.rewriter.Target`.
    While a graph is lowered, tensors have the shape and the dtype that they have in the model, but
    no data: arithmetic on them adds nodes to the graph. Only constants have data.

    Attributes:
        origin_op: A function that takes the lowering's arguments except ``ctx``, and computes the
            operator without this lowering. It uses another lowering of the operator, such as
            core's, if there is one. Otherwise, torch's decomposition replaces the operator if the
            engine or the exporter does not support it; a supported operator stays in the graph.
    """

    origin_op: Callable[..., Any]
    _values: Any = None

    def dtype_of(self, x: torch.Tensor | complex) -> torch.dtype:
        """Return the dtype of a tensor, or the default dtype of a Python number."""
        import torch

        if isinstance(x, torch.Tensor):
            return x.dtype
        # Not torch.tensor(x).dtype, which would add a node to the graph.
        dtypes = {bool: torch.bool, int: torch.int64, complex: torch.complex64}
        return dtypes.get(type(x), torch.get_default_dtype())

    def sizes_of(self, x: torch.Tensor) -> tuple[int | None, ...]:
        """Return a tensor's sizes, with None for each dynamic size."""
        return tuple(size if isinstance(size, int) else None for size in x.shape)

    def is_constant(self, x: object) -> bool:
        """Return True if a value is the same for every input of the model.

        Constants are numbers, weights, buffers, and tensors that are computed only from these.
        """
        import torch

        return not isinstance(x, torch.Tensor) or self._values.is_constant(x)

    def value_of(self, x: torch.Tensor) -> NumpyArray:
        """Return the values of a constant as an array; bfloat16 is converted to float32.

        If ``x`` is not constant, the export fails with a
        :class:`~enginebay.errors.RewriterError`.
        """
        value: NumpyArray | None = self._values.value_of(x) if self.is_constant(x) else None
        if value is None:
            raise NoConstantError
        return value

    def constant(self, values: object, device: torch.device) -> torch.Tensor:
        """Add numbers, an array or a tensor as a constant to the graph; return its tensor.

        Inside a lowering, ``torch.tensor`` would add a write to an empty tensor instead, which
        graphs cannot hold.
        """
        from enginebay.rewriting.lowering.graph_values import constant

        return constant(values, device)
