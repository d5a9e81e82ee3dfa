"""One operator of a graph, lowered: the call of a declaration, and checks of what it returns."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from enginebay.errors import EnginebayError, RewriterError, reason
from enginebay.isolation import check_time_limit
from enginebay.rewriting.lowering.context import NoConstantError, constant, plain
from enginebay.rewriting.lowering.operators import are_complex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch._ops import OpOverload

    from enginebay.rewriting.active_rewriters import ActiveRewriter
    from enginebay.rewriting.lowering.context import LoweringContext

#: How deep a lowering may be inside of itself: ``cat`` of three tensors may be two of two.
_DEPTH = 16


class LoweredOperator:
    """A function for torch's tables of decompositions.

    Args:
        overload: The operator.
        active: Its lowering.
        origin: What takes the operator apart where there is no lowering, and for
            ``ctx.origin_op``; None for nothing, and then it stays in the graph.
        otherwise: What does so where the lowering does not apply: the next lowering, or None for
            ``origin``.
    """

    def __init__(
        self,
        overload: OpOverload,
        active: ActiveRewriter,
        origin: Callable[..., Any] | None,
        otherwise: Callable[..., Any] | None,
    ) -> None:
        self.overload = overload
        self.active = active
        self.origin = origin or _stays
        self.otherwise = otherwise or self.origin
        self._depth = 0
        self._as_it_is = False

    def context(self, fields: dict[str, Any], values: Any) -> None:
        """Make the context of the calls that follow."""
        from enginebay.rewriting.lowering.context import LoweringContext

        self._values = values
        self._context: LoweringContext = LoweringContext(
            origin_op=self._origin_op, _values=values, **fields
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return what the lowering does; ``NotImplemented`` where the operator is to stay."""
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        # Outside of the graph's construction torch wants shapes only, which the operator has.
        mode = get_proxy_mode()
        if mode is None:
            return NotImplemented
        check_time_limit()
        if self._as_it_is:
            return self.origin(*args, **kwargs)
        if not self._applies(args, kwargs):
            return self.otherwise(*args, **kwargs)
        if (found := self._computed(args, kwargs)) is not None:
            return found
        if self._depth >= _DEPTH:
            raise self._error(f"calls itself, {_DEPTH} calls deep", "ctx.origin_op is the operator")
        wanted = self._wanted(args, kwargs)
        graph = mode.tracer.graph
        last = next(iter(reversed(graph.nodes)))
        written = _writes_to(args, kwargs)
        self._depth += 1
        self.active.count += self._depth == 1
        try:
            found = self._run(args, kwargs)
        finally:
            self._depth -= 1
        nodes = list(takewhile(lambda node: node is not last, reversed(graph.nodes)))
        if _writes_to(args, kwargs) != written or any(map(_writes, nodes)):
            raise self._error("changes a tensor in place", "return a new one")
        if any(map(_reads, nodes)):
            raise self._reads_inputs()
        self._check(found, wanted)
        return found

    def _applies(self, args: Any, kwargs: Any) -> bool:
        needs = self.active.rewriter.needs
        if "complex" in needs and not are_complex(args, kwargs):
            return False
        return "dims" not in needs or _are_known(args, kwargs)

    def _computed(self, args: Any, kwargs: Any) -> Any:
        """Return what an operator that is lacking makes of constants; None to lower it.

        One whose result is complex, or has more numbers than the constants, is lowered.
        """
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        if "lacking" not in self.active.rewriter.needs:
            return None
        result = self._values.result_of(self.overload, args, kwargs)
        sizes = [
            sum(each.numel() for each in tree_leaves(values) if isinstance(each, torch.Tensor))
            for values in (result, (args, kwargs))
        ]
        if result is None or sizes[0] > sizes[1] or are_complex(result, None):
            return None
        self.active.count += self._depth == 0
        return tree_map(lambda each: constant(each, each.device), result)

    def _run(self, args: Any, kwargs: Any) -> Any:
        from torch._subclasses.fake_tensor import DataDependentOutputException
        from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

        try:
            return self.active.rewriter.replacement(self._context, *args, **kwargs)
        except EnginebayError:
            raise
        except (DataDependentOutputException, GuardOnDataDependentSymNode, NoConstantError) as err:
            raise self._reads_inputs() from err
        except Exception as err:
            raise self._error(f"failed: {reason(err)}") from err

    def _origin_op(self, *args: Any, **kwargs: Any) -> Any:
        self._as_it_is, before = True, self._as_it_is
        try:
            return self.overload(*args, **kwargs)
        finally:
            self._as_it_is = before

    def _wanted(self, args: Any, kwargs: Any) -> Any:
        """What the operator itself returns: tensors without numbers."""
        from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
        from torch.utils._pytree import tree_map

        args, kwargs = tree_map(plain, (args, kwargs))
        with disable_proxy_modes_tracing():
            return self._origin_op(*args, **kwargs)

    def _check(self, found: Any, wanted: Any) -> None:
        """Raise where a lowering does not return what its operator does."""
        import torch

        pair = [[*each] if isinstance(each, list | tuple) else [each] for each in (found, wanted)]
        if len(pair[0]) != len(pair[1]):
            raise self._error(
                f"returns {_count(pair[0])}, wanted {_count(pair[1])} as the operator"
            )
        for place, (mine, own) in enumerate(zip(*pair, strict=True)):
            if not isinstance(own, torch.Tensor):
                continue
            which = f" as output {place}" if len(pair[1]) > 1 else ""
            if not isinstance(mine, torch.Tensor):
                raise self._error(f"returns a {type(mine).__name__}{which}, wanted a tensor")
            if mine.dtype != own.dtype:
                raise self._error(
                    f"returns {mine.dtype}{which}, wanted {own.dtype} as the operator"
                )
            if not _same_sizes(mine.shape, own.shape):
                raise self._error(
                    f"returns the shape {list(mine.shape)}{which}, "
                    f"wanted {list(own.shape)} as the operator"
                )

    def _reads_inputs(self) -> RewriterError:
        return self._error(
            "reads the numbers of a tensor that depends on the model's inputs",
            "read them by ctx.value_of(x), only where ctx.is_constant(x)",
        )

    def _error(self, problem: str, hint: str | None = None) -> RewriterError:
        rewriter = self.active.rewriter
        return RewriterError(
            f'the lowering {rewriter.origin} of "{rewriter.name}" {problem}', hint=hint
        )


def _stays(*_: Any, **__: Any) -> Any:
    return NotImplemented


def _are_known(args: Any, kwargs: Any) -> bool:
    """Return True if no size of the tensors is open."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves((args, kwargs))
    sizes = [n for each in leaves if isinstance(each, torch.Tensor) for n in each.shape]
    return not any(isinstance(each, torch.SymInt) for each in [*leaves, *sizes])


def _writes_to(args: Any, kwargs: Any) -> list[int]:
    """Count the writes to arguments up to now that torch has turned into other operators."""
    import torch
    from torch._subclasses.functional_tensor import FunctionalTensor
    from torch.utils._pytree import tree_leaves

    count: Any = torch._functionalize_mutation_counter  # private, as of torch 2.13
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, FunctionalTensor)]
    return [count(each.elem) for each in tensors]


def _reads(node: Any) -> bool:
    return str(node.target) in ("aten.item.default", "aten._local_scalar_dense.default")


def _writes(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _same_sizes(found: Any, wanted: Any) -> bool:
    """Compare shapes; an open size must stay open."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return len(found) == len(wanted) and not any(
        (isinstance(mine, int) and not isinstance(own, int)) or statically_known_true(mine != own)
        for mine, own in zip(found, wanted, strict=True)
    )


def _count(values: list[Any]) -> str:
    return "one result" if len(values) == 1 else f"{len(values)} results"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Take torch's report of the graph off the message of a rewriter's error."""
    try:
        yield
    except RewriterError as err:
        err.args = (str(err.args[0]).split("\n\nWhile executing", 1)[0],)
        raise
