"""Symbolic rewriters of one context: the ONNX nodes of operators and autograd functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import ExportError, RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.active_rewriters import ActiveRewriter, activate
from enginebay.rewriting.patches import Patch, installed, lock
from enginebay.rewriting.selection import most_specific

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from contextlib import ExitStack

    from enginebay.rewriting.rewriter import Context, Lost, Rewriter, Target


class SymbolicRewriters:
    """The symbolic rewriters of one context.

    Args:
        rewriters: Those that apply, losers included.
        target: The target that the model is exported for.
        not_found: Gets one line for each name that no loaded module has.
        not_served: Gets one line for each symbolic that the target's exporter cannot use.
        lost: Gets the losers, each with its winner.

    Attributes:
        active: The winners, which :meth:`enter` activates.

    Raises:
        RewriterError: Two are equally specific, or a name is not that of an autograd function.
        ExportError: The target's exporter cannot use one of the caller's own; another may.
    """

    def __init__(
        self,
        rewriters: Iterable[Rewriter],
        target: Target,
        not_found: list[str],
        not_served: list[str],
        lost: Lost,
    ) -> None:
        candidates: dict[Hashable, list[Rewriter]] = {}
        self._patches: dict[Hashable, Patch] = {}
        self._exporter = target.exporter  # where it is not known, a symbolic is put into both
        self._not_served = not_served
        for rewriter in rewriters:
            if target.ir != "onnx":
                subject = f'the symbolic of "{rewriter.name}"'
                not_served.append(f"{subject} does nothing: it makes ONNX nodes, not {target.ir}")
                continue
            try:
                names.find("torch.onnx")  # without torch nothing is exported, and nothing imported
                with lock:
                    patch = _patch(rewriter)
            except names.NameNotFoundError as err:
                not_found.append(str(err))
                continue
            why_never_met = _exporters().get(target.exporter) if rewriter.is_pytorch else None
            if why_never_met and (reason := why_never_met(rewriter.name)):
                self._refuse(rewriter, reason)
                continue
            self._patches[patch.key] = patch
            candidates.setdefault(patch.key, []).append(rewriter)
        winners = most_specific(candidates, lost)
        self._layer = {key: ActiveRewriter(one) for key, one in winners.items()}
        self.active = list(self._layer.values())

    def enter(self, undo: ExitStack, make_context: Callable[[Callable[..., Any]], Context]) -> None:
        """Activate them.

        Args:
            undo: Closed by the caller on every path; takes everything back.
            make_context: Makes a rewriter's context from its original function.
        """
        if not self._layer:
            return
        from enginebay.rewriting.torchscript_symbolics import with_parsed_arguments

        patches = undo.enter_context(installed(self._patches[key] for key in self._layer))
        for patch in patches:
            active = self._layer[patch.key]
            active.context = make_context(patch.original_for(active))
            active.replacement = with_parsed_arguments(active.rewriter)
        activate(undo, self._layer)
        if self._exporter != "torchscript":
            from enginebay.rewriting.dynamo_symbolics import add_translations

            add_translations(undo, [(self._layer[patch.key].rewriter, patch) for patch in patches])
        else:
            from enginebay.rewriting.torchscript_symbolics import watch_constants

            operators = [each.rewriter for each in self.active if each.rewriter.is_pytorch]
            watch_constants(undo, operators, self._refuse)

    def _refuse(self, rewriter: Rewriter, reason: str) -> None:
        """Say that the exporter cannot use a symbolic; of the caller's own it is an error."""
        others = [
            name
            for name, why_never_met in _exporters().items()
            if name != self._exporter and not why_never_met(rewriter.name)
        ]
        advice = "".join(f"; export with the {name} exporter" for name in others)
        line = (
            f'the symbolic of "{rewriter.name}" does nothing in the {self._exporter} exporter: '
            f"{reason}{advice}"
        )
        if rewriter.distribution is None:
            raise ExportError(line)
        self._not_served.append(line)


def _patch(rewriter: Rewriter) -> Patch:
    from enginebay.rewriting.torchscript_symbolics import OperatorPatch, symbolic_of

    if rewriter.is_pytorch:
        return OperatorPatch(rewriter.name)
    found = names.find(rewriter.name)
    from torch.autograd import Function

    if not isinstance(found.value, type) or not issubclass(found.value, Function):
        raise RewriterError(
            f'the symbolic rewriter of "{rewriter.name}" does not name a torch.autograd.Function',
            hint="add is_pytorch=True for an operator, or use .function for a function",
        )
    return symbolic_of(found.value, rewriter.name)


def _exporters() -> dict[str | None, Callable[[str], str]]:
    from enginebay.rewriting.dynamo_symbolics import why_never_met
    from enginebay.rewriting.torchscript_symbolics import why_not_traced

    return {"dynamo": why_never_met, "torchscript": why_not_traced}
