"""The context manager that selects and activates rewriters, and reverts every change at its end."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, get_args

from msgspec import structs

from enginebay.errors import RewriterError
from enginebay.rewriting.functions import FunctionRewriters
from enginebay.rewriting.lowering import LoweringRewriters, choose_lowerings
from enginebay.rewriting.modules import ModuleRewriters
from enginebay.rewriting.report import AppliedRewriter, RewriteReport
from enginebay.rewriting.rewriter import Context, RewriterKind
from enginebay.rewriting.selection import drop_outranked, select_applicable
from enginebay.rewriting.symbolics import SymbolicRewriters

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from torch import nn

    from enginebay.rewriting.active_rewriters import ActiveRewriter
    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Rewriter, Target
    from enginebay.rewriting.selection import Selection


_log = logging.getLogger("enginebay.rewriting")


class Rewriting:
    """Context manager that activates rewriters in this thread; see :func:`enginebay.rewrite`.

    Args:
        model: The model whose modules may be replaced. Without a model, module rewriters are
            no-ops.
        target: The backend, the IR and the options that the model is exported for.
        sets: The sets of rewriters to select from.
        kinds: The kinds of rewriters to activate; by default all.
        strict: True to raise an error for a rewriter that can have no effect.

    Attributes:
        target: The backend, the IR and the options that the model is exported for.
        model: The model to export: the original model, or the module that replaces it.
    """

    def __init__(
        self,
        model: nn.Module | None,
        target: Target,
        sets: Sequence[RewriterSet],
        *,
        kinds: Collection[RewriterKind] = get_args(RewriterKind),
        strict: bool = False,
    ) -> None:
        self.target = target
        self._fields = structs.asdict(target)  # computed once for hundreds of rewriters
        self.model: Any = model
        self._original = model
        every = (each for group in sets for each in group if each.kind in kinds)
        self._rewriters = [*dict.fromkeys(every)]  # a set may be passed twice
        self._strict = strict
        self._undo: ExitStack | None = None
        self._active: list[ActiveRewriter] = []
        self._symbolics: SymbolicRewriters | None = None
        self._lowerings: LoweringRewriters | None = None
        self._selections: tuple[Selection, ...] = ()

    @property
    def report(self) -> RewriteReport:
        """The report of the rewriters so far; also available after the context has ended."""
        lowerings = self._lowerings.active if self._lowerings else []
        unused = self._symbolics.unused if self._symbolics else []
        lost = {each: used for step in self._selections for each, used in step.lost.items()}
        return RewriteReport(
            applied=tuple(
                _make_record(active.rewriter, count=active.count)
                for active in (*self._active, *lowerings)
            ),
            not_found=tuple(self._not_found()),
            not_served=(*self._not_served(), *unused),
            lost=tuple(_make_record(each, lost_to=used.origin) for each, used in lost.items()),
        )

    def __enter__(self) -> Rewriting:
        if self._undo is not None:
            raise RewriterError(
                "this rewrite() context is already active",
                hint="call rewrite() again to create a new context",
            )
        # Validate all of them before anything is changed: their constructors raise.
        applicable = select_applicable(self._rewriters, self.target)
        modules = ModuleRewriters(_filter_kind(applicable, "module"))
        # In reverse order of their effect: a kind that acts earlier must know what it would hide.
        symbolics = SymbolicRewriters(_filter_kind(applicable, "symbolic"), self.target)
        later = symbolics.selection.selected
        unhidden = drop_outranked(_filter_kind(applicable, "lowering"), later)
        choice = choose_lowerings(unhidden.selected, self.target)
        self._selections = (applicable, modules.selection, symbolics.selection)
        self._selections += (unhidden, choice.selection)
        later += tuple(each for each in choice.selection.selected if not each.needs)
        unhidden = drop_outranked(_filter_kind(applicable, "function"), later)
        functions = FunctionRewriters(unhidden.selected)
        self._selections += (unhidden, functions.selection)
        if self._strict and (lines := [*self._not_found(), *self._not_served()]):
            raise RewriterError("\n".join(lines))
        # A module that is not loaded is no error: a set may be for models of several packages.
        own = tuple(
            f'"{each.name}" was not found: "'
            for each in self._rewriters
            if each.distribution is None
        )
        if misspelt := [line for line in self._not_found() if line.startswith(own)]:
            hint = "correct the name, or limit the rewriter to its versions: versions={…}"
            raise RewriterError("\n".join(misspelt), hint=hint)
        self._active = [*functions.active, *modules.active, *symbolics.active]
        self._symbolics, self._lowerings = symbolics, LoweringRewriters(choice, self._fields)
        with ExitStack() as undo:
            # Modules first: their constructors must compute with the original functions.
            if self._original is not None:
                self.model = modules.enter(
                    undo, self._original, self._make_context, self.target.options
                )
            symbolics.enter(undo, self._make_context)
            functions.enter(undo, self._make_context)
            self._lowerings.enter(undo)
            self._undo = undo.pop_all()  # all succeeded; otherwise the block has reverted them
        return self

    def __exit__(self, *exc: object) -> None:
        undo, self._undo = self._undo, None
        self.model = self._original
        if undo is not None:
            undo.close()
        for name, count in self.report.fired.items():
            _log.debug("rewriters for %s: %d × %s", self.target.exporter or "it", count, name)

    def _not_found(self) -> list[str]:
        return [line for step in self._selections for line in step.not_found]

    def _not_served(self) -> list[str]:
        return [line for step in self._selections for line in step.not_served]

    def _make_context(self, origin_func: Callable[..., Any]) -> Context:
        return Context(origin_func=origin_func, **self._fields)


def _filter_kind(applicable: Selection, kind: RewriterKind) -> list[Rewriter]:
    return [rewriter for rewriter in applicable.selected if rewriter.kind == kind]


def _make_record(rewriter: Rewriter, *, count: int = 0, lost_to: str = "") -> AppliedRewriter:
    return AppliedRewriter(
        kind=rewriter.kind,
        name=rewriter.name,
        origin=rewriter.origin,
        condition=rewriter.condition,
        distribution=rewriter.distribution,
        fallback=rewriter.fallback,
        count=count,
        lost_to=lost_to,
    )
