"""Declaration of rewriters: :class:`RewriterSet`, whose methods are decorators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from enginebay.errors import RewriterError
from enginebay.rewriting.checks import (
    check_descriptors,
    check_is_name,
    check_needs,
    check_rewriter,
    type_of,
)
from enginebay.rewriting.rewriter import Check, Rewriter, RewriterKind

if TYPE_CHECKING:
    from typing import Unpack

    from enginebay.ir import IRKind

_F = TypeVar("_F", bound=Callable[..., Any])
_M = TypeVar("_M", bound=type)


class Conditions(TypedDict, total=False):
    """What must hold for a rewriter to apply; all of it, where there is more."""

    backend: str | None
    ir: IRKind | None
    versions: Mapping[str, str] | None
    check: Check | None


class RewriterSet:
    """Rewriters that belong together: those of a backend, of a pack, or of one caller.

    Declaring one does nothing to the process. Pass the set to :func:`~enginebay.rewriting.rewrite`
    or to an export, or return it from the ``rewriters`` hook.

    Args:
        backend: The backend that every rewriter of the set is for, unless it names another;
            None for all backends.
        distribution: The distribution that ships the set; core fills it in for plugins.

    Example:
        >>> rewriters = RewriterSet(backend="ncnn")
        >>> @rewriters.function("torch.Tensor.expand")
        ... def expand_without_batch(ctx, self, *sizes):
        ...     return ctx.origin_func(self, *sizes)
        >>> [rewriter.condition for rewriter in rewriters]
        ['backend ncnn']
    """

    def __init__(self, backend: str | None = None, *, distribution: str | None = None) -> None:
        self.backend = backend
        self.distribution = distribution
        self._rewriters: list[Rewriter] = []

    def __iter__(self) -> Iterator[Rewriter]:
        return iter(self._rewriters)

    def __len__(self) -> int:
        return len(self._rewriters)

    def __repr__(self) -> str:
        target = self.backend or "every backend"
        return f"<RewriterSet for {target}: {len(self)} rewriters>"

    def from_distribution(self, distribution: str) -> RewriterSet:
        """Return the same rewriters, marked as shipped by ``distribution``."""
        marked = RewriterSet(self.backend, distribution=distribution)
        marked._rewriters = [replace(each, distribution=distribution) for each in self]
        return marked

    def joined(self, other: RewriterSet) -> RewriterSet:
        """Return the rewriters of both sets."""
        both = RewriterSet(self.backend, distribution=self.distribution)
        both._rewriters = [*self, *other]
        return both

    def function(
        self,
        name: str,
        **conditions: Unpack[Conditions],
    ) -> Callable[[_F], _F]:
        """Declare other code for a function, a method or a property.

        The replacement takes ``ctx`` and then what the original takes. ``ctx.origin_func`` is the
        original, and takes the same, ``self`` or ``cls`` included. Inside its own rewriter a torch
        function is the original; any other function called by its own name there would call the
        rewriter again.

        Args:
            name: A dotted name: ``torch.Tensor.expand``, ``torch.nn.functional.interpolate``,
                ``torch.ops.my_ops.nms``, ``my_models.head.Head.forward``.
            **conditions: When it applies. ``backend``: as :class:`RewriterSet`'s, for this
                rewriter alone; ``ir``: the IR it is for, such as ``"onnx"``; ``versions``: ranges
                of versions by distribution, which must all hold; ``check``: called with the
                :class:`~enginebay.rewriting.Target`, where it must return True.

        Raises:
            RewriterError: The declaration cannot be right.
        """
        return self._declare("function", name, **conditions)

    def module(
        self,
        name: str,
        **conditions: Unpack[Conditions],
    ) -> Callable[[_M], _M]:
        """Declare another class for the instances of a module class.

        The replacement is an ``nn.Module`` class whose constructor takes ``ctx`` and the original
        module, then by keyword those of the context's options that it names. Of several rewriters
        the one for the nearest class in an instance's MRO is used.

        Args:
            name: The dotted name of the module class.
            **conditions: As for :meth:`function`.

        Raises:
            RewriterError: The declaration cannot be right.
        """
        return self._declare("module", name, **conditions)

    def symbolic(
        self,
        name: str,
        *,
        is_pytorch: bool = False,
        arg_descriptors: Sequence[str] | None = None,
        **conditions: Unpack[Conditions],
    ) -> Callable[[_F], _F]:
        """Declare the ONNX nodes of an operator.

        The replacement takes ``ctx``, the graph ``g`` and the operator's arguments, and returns
        the result of ``g.op(...)``.

        Args:
            name: With ``is_pytorch`` an operator, ``squeeze`` or ``my_ops::nms``; without it the
                dotted name of a ``torch.autograd.Function``.
            is_pytorch: True if ``name`` is an operator of PyTorch.
            arg_descriptors: One letter code for each argument, as for
                ``symbolic_helper.parse_args``: ``v`` a tensor, ``i`` an int, ``is`` ints, ``f`` a
                float, ``b`` a bool, ``none`` …
            **conditions: As for :meth:`function`.

        Raises:
            RewriterError: The declaration cannot be right.
        """
        check_descriptors(name, arg_descriptors or ())
        descriptors = None if arg_descriptors is None else tuple(arg_descriptors)
        return self._declare(
            *("symbolic", name), is_pytorch=is_pytorch, arg_descriptors=descriptors, **conditions
        )

    def lowering(
        self,
        name: str,
        *,
        needs: Sequence[str] = (),
        **conditions: Unpack[Conditions],
    ) -> Callable[[_F], _F]:
        """Declare an operator of a captured graph in terms of others.

        The replacement takes ``ctx`` and then what the operator takes, and is written in plain
        torch. It returns as many tensors as the operator, of the same dtypes and shapes, and
        changes none that it is given. What it calls is lowered in its turn; ``ctx.origin_op`` is
        the operator itself. See :class:`~enginebay.authors.LoweringContext` for the rest of
        ``ctx``.

        Args:
            name: The operator as in ``torch.ops``: ``aten.logsumexp``, or one of its overloads,
                ``aten.max.dim``.
            needs: ``dims``: applies only where every size of the tensors is a number; ``complex``:
                only where a tensor or a number is complex; ``lacking``: only for a backend that
                lists its engine's operators, without this one. With ``complex`` an engine lacks
                it that lists no ``aten.complex``.
            **conditions: As for :meth:`function`.

        Raises:
            RewriterError: The declaration cannot be right.

        Example:
            >>> rewriters = RewriterSet(backend="ncnn")
            >>> @rewriters.lowering("aten.logsumexp")
            ... def stable(ctx, x, dim, keepdim=False):
            ...     top = x.amax(dim, True)
            ...     return (x - top).exp().sum(dim, keepdim).log() + x.amax(dim, keepdim)
            >>> [rewriter.kind for rewriter in rewriters]
            ['lowering']
        """
        check_needs(name, needs)
        return self._declare("lowering", name, needs=tuple(needs), **conditions)

    def _declare(
        self,
        kind: RewriterKind,
        name: str,
        *,
        backend: str | None = None,
        versions: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Callable[[_F], _F]:
        check_is_name(kind, name)  # at once: `@rewriters.function` alone never gets any further
        declared = Rewriter(
            *(kind, name, type(None)),  # the replacement is what is decorated
            backend=backend or self.backend,
            versions=versions or {},
            distribution=self.distribution,
            **fields,
        )

        def decorator(replacement: _F) -> _F:
            rewriter = replace(declared, replacement=replacement)
            check_rewriter(rewriter)
            # The caller may change its own mapping later.
            self._rewriters.append(replace(rewriter, versions=dict(rewriter.versions)))
            return replacement

        return decorator


def check_sets(rewriters: Iterable[Any]) -> None:
    """Check that a caller's ``rewriters`` is a sequence of sets.

    Raises:
        RewriterError: It is something else.
    """
    if isinstance(rewriters, RewriterSet | str) or not isinstance(rewriters, Iterable):
        raise _no_sets("is", rewriters)
    for group in rewriters:
        if not isinstance(group, RewriterSet):
            raise _no_sets("holds", group)


def _no_sets(verb: str, found: object) -> RewriterError:
    return RewriterError(
        f"rewriters {verb} {type_of(found)}, wanted a sequence of enginebay.RewriterSet",
        hint="rewriters=[my_set]",
    )
