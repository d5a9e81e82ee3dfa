"""The call of one operator's lowering, and the checks of its result."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.errors import EnginebayError, RewriterError, reason
from enginebay.rewriting.lowering.context import LoweringContext, NoConstantError
from enginebay.rewriting.lowering.graph_values import constant
from enginebay.rewriting.lowering.operators import are_complex
from enginebay.time_limits import check_time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch
    from torch.fx import Node

    from enginebay.rewriting.active_rewriters import ActiveRewriter
    from enginebay.rewriting.lowering.graph_values import GraphValues
    from enginebay.rewriting.lowering.operators import Args, Kwargs
    from enginebay.torch_private import OpOverload

#: The maximum depth of recursion: ``cat`` of three tensors may be ``cat`` of two, twice.
_MAX_DEPTH = 16


class LoweredOperator:
    """A lowering of one operator, as a function for torch's decomposition tables.

    Args:
        overload: The overload of the operator that the graph calls.
        active: The lowering of the operator.
        origin: The lowering or decomposition that ``ctx.origin_op`` calls. If None,
            ``ctx.origin_op`` keeps the operator in the graph.
        fallback: The lowering for calls to which ``active`` does not apply; None to use
            ``origin``.
        fields: The fields of the target, which become attributes of ``ctx``.
        values: The constants of the graph.
    """

    def __init__(
        self,
        overload: OpOverload,
        active: ActiveRewriter,
        *,
        origin: Callable[..., object] | None,
        fallback: Callable[..., object] | None,
        fields: Mapping[str, Any],
        values: GraphValues,
    ) -> None:
        self.overload = overload
        self.active = active
        self.origin = origin or _keep_operator
        self.fallback = fallback or self.origin
        self._values = values
        self._context = LoweringContext(origin_op=self._origin_op, _values=values, **fields)
        self._depth = 0
        self._use_origin = False

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        """Return the result of the lowering, or ``NotImplemented`` to keep the operator."""
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        # Without a tracer torch only computes shapes, which the operator itself does.
        mode = get_proxy_mode()
        if mode is None:
            return NotImplemented
        check_time_limit()  # lowering a large graph may take minutes
        if self._use_origin:
            return self.origin(*args, **kwargs)
        if not self._is_applicable(args, kwargs):
            return self.fallback(*args, **kwargs)
        if (result := self._compute_constants(args, kwargs)) is not None:
            return result
        if self._depth >= _MAX_DEPTH:
            problem = f"calls itself, {_MAX_DEPTH} calls deep"
            raise self._make_error(problem, "call ctx.origin_op instead of the operator")
        expected = self._expected_result(args, kwargs)
        graph = mode.tracer.graph
        last = next(iter(reversed(graph.nodes)))
        writes = _count_writes(args, kwargs)
        self._depth += 1
        self.active.count += self._depth == 1  # not for calls by the lowering itself
        try:
            result = self._call_lowering(args, kwargs)
        finally:
            self._depth -= 1
        nodes = list(takewhile(lambda node: node is not last, reversed(graph.nodes)))
        if _count_writes(args, kwargs) != writes or any(map(_is_write, nodes)):
            raise self._make_error("changes a tensor in place", "return a new tensor")
        if any(map(_is_read, nodes)):
            raise self._data_dependence_error()
        self._check_result(result, expected)
        return result

    def _is_applicable(self, args: Args, kwargs: Kwargs) -> bool:
        needs = self.active.rewriter.needs
        if "complex" in needs and not are_complex(args, kwargs):
            return False
        return "dims" not in needs or _has_fixed_sizes(args, kwargs)

    def _compute_constants(self, args: Args, kwargs: Kwargs) -> object:
        """Compute an operator whose arguments are constant, and return its result as constants.

        The result is None if the lowering must be called instead, for example because it is also
        for engines that support the operator, because an argument is not constant, or because the
        operator's result is complex or larger than its arguments.
        """
        import torch

        if "lacking" not in self.active.rewriter.needs:
            return None
        result = self._values.compute(self.overload, args, kwargs)
        result_size, argument_size = (
            sum(
                each.numel()
                for each in torch_private.tree_leaves(values)
                if isinstance(each, torch.Tensor)
            )
            for values in (result, (args, kwargs))
        )
        # A larger result would only enlarge the file, and a complex one is what the engine lacks.
        if result is None or result_size > argument_size or are_complex(result, None):
            return None
        self.active.count += self._depth == 0
        return torch_private.tree_map(lambda each: constant(each, each.device), result)

    def _call_lowering(self, args: Args, kwargs: Kwargs) -> object:
        from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

        unreadable = (torch_private.data_dependence_error(), GuardOnDataDependentSymNode)
        try:
            return self.active.rewriter.replacement(self._context, *args, **kwargs)
        except EnginebayError:
            raise
        except (*unreadable, NoConstantError) as err:
            raise self._data_dependence_error() from err
        except Exception as err:
            raise self._make_error(f"failed: {reason(err)}") from err

    def _origin_op(self, *args: object, **kwargs: object) -> object:
        self._use_origin, before = True, self._use_origin
        try:
            return self.overload(*args, **kwargs)
        finally:
            self._use_origin = before

    def _expected_result(self, args: Args, kwargs: Kwargs) -> object:
        """Return what ``ctx.origin_op`` would return, as fake tensors: only dtypes and shapes."""
        from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

        args, kwargs = torch_private.tree_map(torch_private.unwrap_functional, (args, kwargs))
        with disable_proxy_modes_tracing():
            return self._origin_op(*args, **kwargs)

    def _check_result(self, result: object, expected: object) -> None:
        import torch

        results, all_expected = _as_list(result), _as_list(expected)
        if len(results) != len(all_expected):
            raise self._make_error(
                f"returns {_format_count(results)}, "
                f"expected {_format_count(all_expected)} like the operator"
            )
        for index, (output, like) in enumerate(zip(results, all_expected, strict=True)):
            if not isinstance(like, torch.Tensor):
                continue
            which = f" as output {index}" if len(all_expected) > 1 else ""
            if not isinstance(output, torch.Tensor):
                raise self._make_error(
                    f"returns a {type(output).__name__}{which}, expected a tensor"
                )
            if output.dtype != like.dtype:
                raise self._make_error(
                    f"returns {output.dtype}{which}, expected {like.dtype} like the operator"
                )
            if not _same_sizes(output.shape, like.shape):
                raise self._make_error(
                    f"returns the shape {list(output.shape)}{which}, "
                    f"expected {list(like.shape)} like the operator"
                )

    def _data_dependence_error(self) -> RewriterError:
        return self._make_error(
            "reads the values of a tensor that depends on the model's inputs",
            "read constants only: ctx.value_of(x) if ctx.is_constant(x)",
        )

    def _make_error(self, problem: str, hint: str | None = None) -> RewriterError:
        rewriter = self.active.rewriter
        return RewriterError(
            f'the lowering {rewriter.origin} of "{rewriter.name}" {problem}', hint=hint
        )


def _keep_operator(*_: object, **__: object) -> object:
    return NotImplemented


def _has_fixed_sizes(args: Args, kwargs: Kwargs) -> bool:
    import torch

    leaves = torch_private.tree_leaves((args, kwargs))
    sizes = [n for each in leaves if isinstance(each, torch.Tensor) for n in each.shape]
    return not any(isinstance(each, torch.SymInt) for each in [*leaves, *sizes])


def _count_writes(args: Args, kwargs: Kwargs) -> list[int]:
    """Return the number of in-place writes to each tensor argument so far.

    The recorded graph does not show writes.
    """
    return [torch_private.count_writes(each) for each in torch_private.tree_leaves((args, kwargs))]


def _is_read(node: Node) -> bool:
    return str(node.target) in ("aten.item.default", "aten._local_scalar_dense.default")


def _is_write(node: Node) -> bool:
    schema = torch_private.schema_of(node.target)
    return schema is not None and schema.is_mutable


def _same_sizes(
    sizes: Sequence[int | torch.SymInt], expected: Sequence[int | torch.SymInt]
) -> bool:
    """Return False if two shapes differ for certain, or if a dynamic size has become constant."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return len(sizes) == len(expected) and not any(
        (isinstance(size, int) and not isinstance(like, int)) or statically_known_true(size != like)
        for size, like in zip(sizes, expected, strict=True)
    )


def _as_list(result: object) -> list[object]:
    return [*result] if isinstance(result, list | tuple) else [result]


def _format_count(values: list[object]) -> str:
    return "one result" if len(values) == 1 else f"{len(values)} results"


@contextmanager
def strip_graph_reports() -> Iterator[None]:
    """Remove the graph that torch appends to a RewriterError's message in the ``with`` block."""
    try:
        yield
    except RewriterError as err:
        err.args = (str(err.args[0]).split("\n\nWhile executing", 1)[0],)
        raise
