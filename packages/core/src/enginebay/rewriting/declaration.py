"""What a rewriter replaces, by what, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from enginebay.rewriting.checks import check, check_descriptors, check_name_given

if TYPE_CHECKING:
    from enginebay.rewriting.selection import Target

RewriterKind: TypeAlias = Literal["function", "module", "symbolic"]

#: The kind of an IR by its name, such as ``"onnx"``. The IR room owns the list of kinds.
IRKind: TypeAlias = str

Check: TypeAlias = "Callable[[Target], bool]"
_F = TypeVar("_F", bound=Callable[..., Any])
_M = TypeVar("_M", bound=type)


@dataclass(frozen=True, eq=False)
class Rewriter:
    """One declaration.

    Attributes:
        kind: What it rewrites.
        name: The dotted name of what it rewrites; a symbolic also takes an operator's name.
        replacement: The function or the module class to use instead.
        backend: The backend it is for; None for every one.
        ir: The IR it is for; None for every one.
        versions: Version ranges by distribution, such as ``{"torch": ">=2.9"}``; all must hold.
        check: A condition of its own.
        distribution: Where it comes from; None for what the caller declared.
        is_pytorch: For a symbolic: whether ``name`` is an operator of PyTorch.
        arg_descriptors: For a symbolic: how each of its arguments is read.
    """

    kind: RewriterKind
    name: str
    replacement: Callable[..., Any]
    backend: str | None = None
    ir: IRKind | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    check: Check | None = None
    distribution: str | None = None
    is_pytorch: bool = False
    arg_descriptors: tuple[str, ...] | None = None

    @property
    def condition(self) -> str:
        """When it applies, in words: ``backend ncnn, torch>=2.9``, or ``always``."""
        parts = [f"backend {self.backend}"] if self.backend else []
        parts += [f"ir {self.ir}"] if self.ir else []
        parts += [f"{name}{wanted}" for name, wanted in self.versions.items()]
        parts += [f"check {_name_of(self.check)}"] if self.check else []
        return ", ".join(parts) or "always"

    @property
    def origin(self) -> str:
        """The replacement's own dotted name, for messages."""
        return f"{self.replacement.__module__}.{_name_of(self.replacement)}"


class RewriterSet:
    """Rewriters that belong together: those of a backend, of a pack, or of one caller.

    Declaring one does nothing to the process. Hand the set to :func:`~enginebay.rewriting.rewrite`,
    to an export, or answer it from the ``rewriters`` hook.

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
        """The same rewriters, marked as shipped by ``distribution``."""
        marked = RewriterSet(self.backend, distribution=distribution)
        marked._rewriters = [replace(each, distribution=distribution) for each in self]
        return marked

    def function(
        self,
        name: str,
        *,
        backend: str | None = None,
        ir: IRKind | None = None,
        versions: Mapping[str, str] | None = None,
        check: Check | None = None,
    ) -> Callable[[_F], _F]:
        """Declare other code for a function, a method or a property.

        The replacement takes ``ctx`` and then what the original takes. ``ctx.origin_func`` is the
        original, and takes the same again, ``self`` or ``cls`` included. Inside its own rewriter
        a torch function is the original; any other function called by its own name there would
        come back to the rewriter.

        Args:
            name: A dotted name: ``torch.Tensor.expand``, ``torch.nn.functional.interpolate``,
                ``torch.ops.my_ops.nms``, ``my_models.head.Head.forward``.
            backend: As :class:`RewriterSet`'s, for this rewriter alone.
            ir: The IR it is for, such as ``"onnx"``; None for every one.
            versions: Version ranges by distribution that must all hold.
            check: Called with the :class:`~enginebay.rewriting.Target`; the rewriter applies
                where it answers True.

        Raises:
            RewriterError: The declaration cannot be right.
        """
        check_name_given("function", name)

        def declare(replacement: _F) -> _F:
            self._add(Rewriter("function", name, replacement, backend, ir, versions or {}, check))
            return replacement

        return declare

    def module(
        self,
        name: str,
        *,
        backend: str | None = None,
        ir: IRKind | None = None,
        versions: Mapping[str, str] | None = None,
        check: Check | None = None,
    ) -> Callable[[_M], _M]:
        """Declare another class for the instances of a module class.

        The replacement is an ``nn.Module`` class whose constructor takes ``ctx`` and the module
        that it stands for, then by keyword those of the context's options that it names. Of
        several rewriters the one for the nearest class in an instance's MRO is taken.

        Args:
            name: The dotted name of the module class.
            backend: As for :meth:`function`, like the arguments after it.
            ir: The IR it is for.
            versions: Version ranges by distribution.
            check: A condition of its own.

        Raises:
            RewriterError: The declaration cannot be right.
        """
        check_name_given("module", name)

        def declare(replacement: _M) -> _M:
            self._add(Rewriter("module", name, replacement, backend, ir, versions or {}, check))
            return replacement

        return declare

    def symbolic(
        self,
        name: str,
        *,
        is_pytorch: bool = False,
        arg_descriptors: Sequence[str] | None = None,
        backend: str | None = None,
        ir: IRKind | None = None,
        versions: Mapping[str, str] | None = None,
        check: Check | None = None,
    ) -> Callable[[_F], _F]:
        """Declare the ONNX nodes of an operator.

        The replacement takes ``ctx``, the graph ``g`` and the operator's arguments, and answers
        what ``g.op(...)`` gave.

        Args:
            name: With ``is_pytorch`` an operator, ``squeeze`` or ``my_ops::nms``; without it the
                dotted name of a ``torch.autograd.Function``.
            is_pytorch: Whether ``name`` is an operator that PyTorch knows.
            arg_descriptors: One letter code an argument, as for ``symbolic_helper.parse_args``:
                ``v`` a tensor, ``i`` an int, ``is`` ints, ``f`` a float, ``b`` a bool,
                ``none`` …
            backend: As for :meth:`function`, like the arguments after it.
            ir: The IR it is for.
            versions: Version ranges by distribution.
            check: A condition of its own.

        Raises:
            RewriterError: The declaration cannot be right.
        """
        check_name_given("symbolic", name)
        check_descriptors(name, arg_descriptors or ())

        def declare(replacement: _F) -> _F:
            descriptors = None if arg_descriptors is None else tuple(arg_descriptors)
            self._add(
                Rewriter(
                    "symbolic",
                    name,
                    replacement,
                    backend,
                    ir,
                    versions or {},
                    check,
                    is_pytorch=is_pytorch,
                    arg_descriptors=descriptors,
                )
            )
            return replacement

        return declare

    def _add(self, rewriter: Rewriter) -> None:
        check(rewriter)
        self._rewriters.append(
            replace(
                rewriter,
                backend=rewriter.backend or self.backend,
                versions=dict(rewriter.versions),
                distribution=self.distribution,
            )
        )


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
