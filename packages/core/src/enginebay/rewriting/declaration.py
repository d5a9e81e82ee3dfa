"""Declaration of rewriters: :class:`RewriterSet`, whose methods are decorators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from enginebay.errors import RewriterError
from enginebay.rewriting.declaration_checks import (
    check_descriptors,
    check_needs,
    check_rewriter,
    describe_type,
    name_subject,
)
from enginebay.rewriting.rewriter import Check, Rewriter, RewriterKind

if TYPE_CHECKING:
    from typing import Unpack

    from enginebay.params import IRKind

_F = TypeVar("_F", bound=Callable[..., Any])
_M = TypeVar("_M", bound=type)


class Conditions(TypedDict, total=False):
    """The conditions of a rewriter; the rewriter applies if all of them are true."""

    backend: str | None
    ir: IRKind | None
    versions: Mapping[str, str] | None
    check: Check | None


class RewriterSet:
    """A set of rewriters that a backend, a plugin or a caller declares.

    A declaration changes nothing in the process. Pass the set to
    :func:`enginebay.rewrite` or to an export, or return it from the ``rewriters`` hook.

    Args:
        backend: The backend of the rewriters that are declared without ``backend``; None for all
            backends.
        fallback: True if any rewriter for the same name that is not a fallback takes precedence,
            whoever declares it. Enginebay's own rewriters are fallbacks.
        distribution: The Python distribution that ships the set; core sets this for plugins. None
            for the caller's own set.

    Example:
        >>> rewriters = RewriterSet(backend="ncnn")
        >>> @rewriters.function("torch.Tensor.expand")
        ... def expand_without_batch(ctx, self, *sizes):
        ...     return ctx.origin_func(self, *sizes)
        >>> [rewriter.condition for rewriter in rewriters]
        ['backend ncnn']
    """

    def __init__(
        self,
        *,
        backend: str | None = None,
        fallback: bool = False,
        distribution: str | None = None,
    ) -> None:
        self.backend = backend
        self.fallback = fallback
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
        """Return a copy of the set, with ``distribution`` recorded as the package that ships it."""
        marked = self._like(distribution)
        marked._rewriters = [_mark(each, distribution) for each in self]
        return marked

    def joined(self, other: RewriterSet) -> RewriterSet:
        """Return a set with the rewriters of both sets."""
        both = self._like(self.distribution)
        both._rewriters = [*self, *other]
        return both

    def _like(self, distribution: str | None) -> RewriterSet:
        return RewriterSet(backend=self.backend, fallback=self.fallback, distribution=distribution)

    def function(
        self, name: str | Callable[..., Any], **conditions: Unpack[Conditions]
    ) -> Callable[[_F], _F]:
        """Return a decorator that declares a replacement for a function, a method or a property.

        The replacement takes ``ctx`` and then the arguments of the original, including ``self`` or
        ``cls``. ``ctx.origin_func`` is the original function, which takes the same arguments but no
        ``ctx``. If the replacement calls a torch function by the declared name, the original
        function runs. Any other function that is called by the declared name runs the replacement
        again: call ``ctx.origin_func`` instead.

        Args:
            name: A dotted name: ``torch.Tensor.expand``, ``torch.nn.functional.interpolate``,
                ``torch.ops.my_ops.nms``, ``my_models.head.Head.forward``. Or a function itself, as
                in a notebook: a Python function, or one of torch. An inherited method is that of
                the base class then.
            **conditions: When the replacement applies. ``backend``: for this backend only; ``ir``:
                for this IR only, such as ``"onnx"``; ``versions``: version ranges by distribution,
                which must all match; ``check``: a function that takes the
                :class:`~enginebay.rewriting.Target` and returns True if the replacement applies.

        Raises:
            RewriterError: The declaration is invalid.
        """
        return self._make_decorator("function", name, **conditions)

    def module(self, name: str | type, **conditions: Unpack[Conditions]) -> Callable[[_M], _M]:
        """Return a decorator that declares a replacement for the instances of a module class.

        The replacement is an ``nn.Module`` class. Its constructor takes ``ctx`` and the original
        module. It also receives those ``**options`` of :func:`enginebay.rewrite` that it
        has as parameters. If several classes in the MRO of a module have a rewriter, the rewriter
        of the first of these classes is used.

        Args:
            name: The dotted name of the module class, or the class itself.
            **conditions: As for :meth:`function`.

        Raises:
            RewriterError: The declaration is invalid.
        """
        return self._make_decorator("module", name, **conditions)

    def symbolic(
        self,
        name: str,
        *,
        is_pytorch: bool = False,
        arg_descriptors: Sequence[str] | None = None,
        **conditions: Unpack[Conditions],
    ) -> Callable[[_F], _F]:
        """Return a decorator that declares a symbolic of an operator or an autograd function.

        A symbolic is a function that adds the ONNX nodes for a call of the operator or autograd
        function. It takes ``ctx``, the graph ``g`` and the arguments of the call, and returns the
        result of ``g.op(...)``.

        Args:
            name: If ``is_pytorch`` is True, the name of an operator, such as ``squeeze`` or
                ``my_ops::nms``; otherwise the dotted name of a ``torch.autograd.Function``.
            is_pytorch: True if ``name`` is an operator of PyTorch.
            arg_descriptors: One letter code for each argument, as for
                ``symbolic_helper.parse_args``: ``v`` a tensor, ``i`` an int, ``is`` ints, ``f`` a
                float, ``b`` a bool, ``none`` …
            **conditions: As for :meth:`function`.

        Raises:
            RewriterError: The declaration is invalid.
        """
        check_descriptors(name, arg_descriptors or ())
        descriptors = None if arg_descriptors is None else tuple(arg_descriptors)
        return self._make_decorator(
            *("symbolic", name), is_pytorch=is_pytorch, arg_descriptors=descriptors, **conditions
        )

    def lowering(
        self, name: str, *, needs: Sequence[str] = (), **conditions: Unpack[Conditions]
    ) -> Callable[[_F], _F]:
        """Return a decorator that declares a decomposition of an operator of a captured graph.

        The replacement takes ``ctx`` and then the operator's arguments, and calls torch functions.
        It returns as many tensors as the operator, of the same dtypes and shapes, and must not
        write to its arguments. The operators that the replacement calls are lowered too;
        ``ctx.origin_op`` computes the operator without this lowering. The other attributes of
        ``ctx`` are those of :class:`~enginebay.authors.LoweringContext`.

        Args:
            name: The operator as in ``torch.ops``: ``aten.logsumexp``, or one of its overloads,
                ``aten.max.dim``.
            needs: What must be true so that the lowering is used. ``dims``: all sizes of the
                operator's tensors are fixed; ``complex``: one of its arguments is complex;
                ``lacking``: the engine does not support the operator, according to the backend's
                list of operators. A lowering with both ``complex`` and ``lacking`` is also used if
                the engine does not support ``aten.complex``.
            **conditions: As for :meth:`function`.

        Raises:
            RewriterError: The declaration is invalid.

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
        return self._make_decorator("lowering", name, needs=tuple(needs), **conditions)

    def _make_decorator(
        self,
        kind: RewriterKind,
        given: object,
        *,
        backend: str | None = None,
        versions: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Callable[[_F], _F]:
        # Now, and not in the decorator: a bare `@rewriters.function` never calls the decorator.
        name, subject = name_subject(kind, given)
        declared = Rewriter(
            kind=kind,
            name=name,
            subject=subject,
            replacement=type(None),  # replaced by the decorated function
            backend=backend or self.backend,
            versions=versions or {},
            distribution=self.distribution,
            fallback=self.fallback,
            **fields,
        )

        def decorator(replacement: _F) -> _F:
            rewriter = replace(declared, replacement=replacement)
            check_rewriter(rewriter)
            self._rewriters = [each for each in self if not each.repeats(rewriter)]
            # A copy: the caller may change its mapping later.
            self._rewriters.append(replace(rewriter, versions=dict(rewriter.versions)))
            return replacement

        return decorator


@lru_cache(maxsize=10_000)
def _mark(rewriter: Rewriter, distribution: str) -> Rewriter:
    # Cached, since every context marks the same few hundred rewriters of the plugins.
    return replace(rewriter, distribution=distribution)


def check_sets(rewriters: object) -> None:
    """Check that a caller's ``rewriters`` is a sequence of :class:`RewriterSet`.

    Raises:
        RewriterError: ``rewriters`` has another type.
    """
    if isinstance(rewriters, RewriterSet | str) or not isinstance(rewriters, Iterable):
        raise _sets_error("is", rewriters)
    for group in rewriters:
        if not isinstance(group, RewriterSet):
            raise _sets_error("contains", group)


def _sets_error(verb: str, found: object) -> RewriterError:
    return RewriterError(
        f"'rewriters' {verb} {describe_type(found)}, expected a sequence of enginebay.RewriterSet",
        hint="rewriters=[my_set]",
    )
