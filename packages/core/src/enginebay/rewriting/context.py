"""``rewrite``: rewriters in force for the length of a ``with`` block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import RewriterError
from enginebay.rewriting.builtin import builtin_rewriters
from enginebay.rewriting.declaration import IRKind
from enginebay.rewriting.functions import FunctionRewriters
from enginebay.rewriting.modules import ModuleRewriters
from enginebay.rewriting.report import AppliedRewriter, RewriteReport
from enginebay.rewriting.selection import Target, applicable
from enginebay.rewriting.symbolics import SymbolicRewriters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from torch import nn

    from enginebay.rewriting.declaration import Rewriter, RewriterKind, RewriterSet
    from enginebay.rewriting.layers import Bound


class Context(msgspec.Struct, frozen=True):
    """What a rewriter gets as its first argument.

    Attributes:
        origin_func: The original: called like the rewriter, without ``ctx``. For a module
            rewriter it is the original module.
        backend: The backend that the model is exported for.
        ir: The kind of IR that it is exported to.
        opset: The ONNX opset asked for; None where the exporter chooses.
        exporter: The exporter; None where it is not known.
        config: The deployment config; empty where there is none.
        options: Every other keyword given to :func:`rewrite`.
    """

    origin_func: Callable[..., Any]
    backend: str
    ir: IRKind
    opset: int | None
    exporter: str | None
    config: Mapping[str, Any]
    options: Mapping[str, Any]


class Rewriting:
    """A context in which rewriters are in force; made by :func:`rewrite`.

    Attributes:
        target: What the model is exported for.
        model: The model to export. It is the model given, unless a module rewriter took the
            place of its root.
    """

    def __init__(
        self,
        model: nn.Module | None,
        target: Target,
        rewriters: Sequence[Rewriter],
        *,
        strict: bool = False,
    ) -> None:
        self.target = target
        self.model: Any = model
        self._original = model
        self._rewriters = rewriters
        self._strict = strict
        self._undo: ExitStack | None = None
        self._bound: list[Bound] = []
        self._not_found: list[str] = []
        self._not_served: list[str] = []

    @property
    def report(self) -> RewriteReport:
        """What the rewriters have done up to now; also after the context has been left."""
        return RewriteReport(
            applied=tuple(map(_applied, self._bound)),
            not_found=tuple(self._not_found),
            not_served=tuple(self._not_served),
        )

    def __enter__(self) -> Rewriting:
        if self._undo is not None:
            raise RewriterError("this rewriting is already in force", hint="call rewrite() again")
        self._not_found, self._not_served = [], []
        chosen = applicable(self._rewriters, self.target)
        functions = FunctionRewriters(_of(chosen, "function"), self._not_found)
        modules = ModuleRewriters(_of(chosen, "module"), self._not_found)
        symbolics = SymbolicRewriters(
            _of(chosen, "symbolic"), self.target, self._not_found, self._not_served
        )
        self._complain()
        self._bound = [*functions.bound, *modules.bound, *symbolics.bound]
        with ExitStack() as undo:
            # Modules come first: what their constructors compute is the original's business.
            if self._original is not None:
                self.model = modules.enter(undo, self._original, self._context, self.target.options)
            symbolics.enter(undo, self._context)
            functions.enter(undo, self._context)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        undo, self._undo = self._undo, None
        self.model = self._original
        if undo is not None:
            undo.close()

    def _context(self, origin_func: Callable[..., Any]) -> Context:
        target = self.target
        return Context(
            origin_func,
            target.backend,
            target.ir,
            target.opset,
            target.exporter,
            target.config,
            target.options,
        )

    def _complain(self) -> None:
        lines = [*self._not_found, *self._not_served]
        if self._strict and lines:
            raise RewriterError("\n".join(lines))


def rewrite(
    model: nn.Module | None = None,
    *,
    backend: str,
    ir: IRKind = "onnx",
    rewriters: Sequence[RewriterSet] = (),
    config: Mapping[str, Any] | None = None,
    opset: int | None = None,
    exporter: str | None = None,
    builtin: bool = True,
    strict: bool = False,
    **options: Any,
) -> Rewriting:
    """Rewriters in force for the length of a ``with`` block, in this thread.

    Args:
        model: The model whose modules may be exchanged. The block's target has it, rewritten, as
            ``.model``. Without one, module rewriters do nothing.
        backend: The backend that the model is exported for.
        ir: The kind of IR that it is exported to.
        rewriters: The sets to choose from, besides core's own.
        config: The deployment config, for rewriters to read.
        opset: The ONNX opset asked for.
        exporter: Which exporter will run.
        builtin: Whether core's own rewriters take part.
        strict: Whether a name that is not found, or a symbolic that the exporter cannot serve, is
            an error instead of a line in the report.
        **options: Whatever rewriters want to know: ``ctx.options``, and by name the arguments of
            module rewriters' constructors.

    Returns:
        A context manager. Its target has ``.model`` and ``.report``.

    Raises:
        RewriterError: On entering: two rewriters are equally specific, one does not fit what it
            names, or ``strict`` found something missing. Nothing has been changed then.
    """
    target = Target(
        backend=backend,
        ir=ir,
        opset=opset,
        exporter=exporter,
        config=config or {},
        options=options,
    )
    sets = [builtin_rewriters(), *rewriters] if builtin else rewriters
    return Rewriting(model, target, [each for group in sets for each in group], strict=strict)


def _of(rewriters: Sequence[Rewriter], kind: RewriterKind) -> list[Rewriter]:
    return [rewriter for rewriter in rewriters if rewriter.kind == kind]


def _applied(bound: Bound) -> AppliedRewriter:
    rewriter = bound.rewriter
    return AppliedRewriter(
        kind=rewriter.kind,
        name=rewriter.name,
        condition=rewriter.condition,
        distribution=rewriter.distribution,
        count=bound.count,
    )
