"""Marks are names for tensors of a model; the model's graph can be split at these tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay import torch_private
from enginebay.errors import RewriterError
from enginebay.rewriting import RewriterSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from enginebay.rewriting import Context

#: The operator of a mark in an ONNX graph. Not Identity, which optimisers remove.
#: :mod:`enginebay.partition.onnx_split` removes these nodes before an engine reads the graph.
DOMAIN, OPERATOR = "enginebay", "Mark"

_T = TypeVar("_T")


def mark(x: Tensor, name: str) -> Tensor:  # noqa: ARG001  # read where graphs are cut
    """Mark a tensor of a model with a name, and return the tensor.

    A mark has no effect until a graph is cut: ``deploy(…, cuts=("neck",))`` cuts at tensors that
    are marked as ``neck``.

    Args:
        x: A tensor of the model.
        name: The name by which ``cuts`` selects the tensor; a cut at a name goes through all
            tensors that are marked with this name.

    Example:
        >>> mark([1, 2], "neck")
        [1, 2]
    """
    return x


def marks(functions: Mapping[str, str]) -> RewriterSet:
    """Return rewriters that mark (name) the input and output tensors of functions.

    Tensors in tuples, lists and dicts are marked too. With the name ``head``, the marks are
    ``head:input_0``, ``head:input_1`` … in the order of the arguments, and ``head:output_0`` … in
    the order of the results. A cut at ``head`` or ``head:input`` is before the function, a cut at
    ``head:output`` after it.

    Args:
        functions: Dotted name of a function or method → name for its marks, such as ``head``.

    Raises:
        RewriterError: ``functions`` is not a mapping, or one of its names is invalid.

    Example:
        >>> [rewriter.name for rewriter in marks({"my_models.head.Head.forward": "head"})]
        ['my_models.head.Head.forward']
    """
    if not isinstance(functions, Mapping):
        raise RewriterError(
            "marks() expected a mapping from functions to names, "
            f"found a {type(functions).__name__}",
            hint='enginebay.marks({"my_models.head.Head.forward": "head"})',
        )
    rewriters = RewriterSet()
    for function, name in functions.items():
        if not isinstance(name, str) or not name:
            raise RewriterError(f'marks() expected a name for "{function}", found {name!r}')
        rewriters.function(function)(_make_marker(name))
    return rewriters


@functools.cache
def mark_nodes() -> RewriterSet:
    """Return rewriters that export each call of :func:`mark` as an ONNX node, in both exporters."""
    from enginebay.partition import mark_function

    rewriters = RewriterSet(fallback=True, distribution="enginebay")
    rewriters.function(f"{__name__}.mark", ir="onnx")(_apply_mark)
    rewriters.symbolic(f"{mark_function.__name__}.Mark", ir="onnx")(_add_mark_node)
    return rewriters


def _make_marker(name: str) -> Callable[..., object]:
    def marked(ctx: Context, /, *args: object, **kwargs: object) -> object:
        args, kwargs = _mark_tensors((args, kwargs), f"{name}:input")
        return _mark_tensors(ctx.origin_func(*args, **kwargs), f"{name}:output")

    return marked


def _mark_tensors(tree: _T, prefix: str) -> _T:
    import torch

    numbers = itertools.count()

    def mark_leaf(leaf: object) -> object:
        return mark(leaf, f"{prefix}_{next(numbers)}") if isinstance(leaf, torch.Tensor) else leaf

    marked: _T = torch_private.tree_map(mark_leaf, tree)
    return marked


def _apply_mark(ctx: Context, x: object, name: object) -> object:  # noqa: ARG001  # what rewriters take
    import torch

    from enginebay.partition.mark_function import Mark

    apply: Any = Mark.apply  # untyped in torch 2.13
    if not isinstance(x, torch.Tensor) or not isinstance(name, str) or not name:
        raise RewriterError(
            f"mark() expected a tensor and a name, found ({type(x).__name__}, {name!r})"
        )
    return apply(x, name)


def _add_mark_node(ctx: Context, g: Any, x: Any, name: str) -> Any:  # noqa: ARG001  # what symbolics take
    marked = g.op(f"{DOMAIN}::{OPERATOR}", x, name_s=name)
    marked.setType(x.type())  # symbolics of later nodes read the rank
    return marked
