"""Symbolic rewriters of one ``rewrite`` context: each adds the ONNX nodes of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ExportError, RewriterError
from enginebay.rewriting.active_rewriters import ActiveRewriter, activate_layer
from enginebay.rewriting.dotted_names import NameNotFoundError, find_name
from enginebay.rewriting.patches import Patch, install_patches, patch_lock
from enginebay.rewriting.selection import select_for_each

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from contextlib import ExitStack

    from enginebay.rewriting.rewriter import MakeContext, Rewriter, Target


class SymbolicRewriters:
    """The symbolic rewriters of one ``rewrite`` context.

    Args:
        rewriters: The symbolic rewriters whose conditions hold.
        target: The target that the model is exported for.

    Attributes:
        selection: The selected rewriters, and why the others are not used.
        active: The selected rewriters, which :meth:`enter` activates.
        unused: One line for each symbolic that turned out to have no effect during the export.

    Raises:
        RewriterError: Two rewriters are equally specific, or a name does not refer to an autograd
            function.
        ExportError: The exporter cannot use a symbolic that the caller declared.
    """

    def __init__(self, rewriters: Iterable[Rewriter], target: Target) -> None:
        not_found, not_served = [], []
        candidates: dict[Hashable, list[Rewriter]] = {}
        self._patches: dict[Hashable, Patch] = {}
        self._exporter = target.exporter  # if None, symbolics are registered in both exporters
        for rewriter in rewriters:
            if target.ir != "onnx":
                subject = f'the symbolic of "{rewriter.name}"'
                reason = f"symbolics create ONNX nodes, not {target.ir}"
                not_served.append(f"{subject} does nothing: {reason}")
                continue
            try:
                find_name("torch.onnx")  # fails if torch is not loaded; it must not be imported
                with patch_lock:
                    patch = _make_patch(rewriter)
            except NameNotFoundError as err:
                not_found.append(str(err))
                continue
            why_never_met = _exporter_checks().get(target.exporter) if rewriter.is_pytorch else None
            if why_never_met and (reason := why_never_met(rewriter.name)):
                not_served.append(self._refuse_symbolic(rewriter, reason))
                continue
            self._patches[patch.key] = patch
            candidates.setdefault(patch.key, []).append(rewriter)
        winners, self.selection = select_for_each(candidates, not_found, not_served)
        self._layer = {key: ActiveRewriter(one) for key, one in winners.items()}
        self.active = list(self._layer.values())
        self.unused: list[str] = []

    def enter(self, undo: ExitStack, make_context: MakeContext) -> None:
        """Activate the rewriters.

        Args:
            undo: An exit stack that the caller must close; it reverts all changes.
            make_context: Takes an original symbolic, and returns the rewriter's ``ctx``.
        """
        if not self._layer:
            return
        from enginebay.rewriting.torchscript_symbolics import parse_arguments_of

        patches = undo.enter_context(install_patches(self._patches[key] for key in self._layer))
        for patch in patches:
            active = self._layer[patch.key]
            active.context = make_context(patch.original_for(active))
            active.replacement = parse_arguments_of(active.rewriter)
        activate_layer(undo, self._layer)
        if self._exporter != "torchscript":
            from enginebay.rewriting.dynamo_symbolics import add_translations

            add_translations(undo, [(self._layer[patch.key].rewriter, patch) for patch in patches])
        # A fallback may be without effect, and watching takes a search of all loaded modules.
        elif watched := [
            each.rewriter
            for each in self.active
            if each.rewriter.is_pytorch and not each.rewriter.fallback
        ]:
            from enginebay.rewriting.torchscript_symbolics import watch_constants

            watch_constants(
                undo, watched, lambda *why: self.unused.append(self._refuse_symbolic(*why))
            )

    def _refuse_symbolic(self, rewriter: Rewriter, reason: str) -> str:
        """Return the line on a symbolic that the exporter cannot use.

        Raises:
            ExportError: The caller declared the symbolic.
        """
        others = [
            name
            for name, why_never_met in _exporter_checks().items()
            if name != self._exporter and not why_never_met(rewriter.name)
        ]
        advice = "".join(f"; export with the {name} exporter" for name in others)
        line = (
            f'the symbolic of "{rewriter.name}" does nothing in the {self._exporter} exporter: '
            f"{reason}{advice}"
        )
        if rewriter.distribution is None:
            raise ExportError(line)
        return line


def _make_patch(rewriter: Rewriter) -> Patch:
    from enginebay.rewriting.torchscript_symbolics import OperatorPatch, patch_symbolic

    if rewriter.is_pytorch:
        return OperatorPatch(rewriter.name)
    function = find_name(rewriter.name).value
    from torch.autograd import Function

    if not isinstance(function, type) or not issubclass(function, Function):
        raise RewriterError(
            f'the symbolic rewriter of "{rewriter.name}" does not have the name of a '
            "torch.autograd.Function",
            hint="add is_pytorch=True for an operator, or use .function for a function",
        )
    return patch_symbolic(function, rewriter.name)


def _exporter_checks() -> dict[str | None, Callable[[str], str]]:
    from enginebay.rewriting.dynamo_symbolics import why_never_met
    from enginebay.rewriting.torchscript_symbolics import why_not_traced

    return {"dynamo": why_never_met, "torchscript": why_not_traced}
