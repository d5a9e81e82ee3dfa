"""Symbolic rewriters: the ONNX nodes of an operator or of an autograd function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.layers import Bound, put_in_force
from enginebay.rewriting.python_functions import Patch, applied
from enginebay.rewriting.selection import most_specific

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from contextlib import ExitStack

    from enginebay.rewriting.declaration import Rewriter
    from enginebay.rewriting.selection import Target

#: Torch's exporters to ONNX: ``torch.onnx.export`` with ``dynamo=False``, and without.
TORCHSCRIPT, DYNAMO = "torchscript", "dynamo"


class SymbolicRewriters:
    """The symbolic rewriters of one context.

    Args:
        rewriters: Those that apply, losers included.
        target: What the model is exported for.
        not_found: Takes one line for each name that no loaded module has.
        not_served: Takes one line for each symbolic that the target's exporter cannot use.

    Attributes:
        bound: One entry a rewriter that will be in force.

    Raises:
        RewriterError: Two are equally specific, or a name is not that of an autograd function.
    """

    def __init__(
        self,
        rewriters: Iterable[Rewriter],
        target: Target,
        not_found: list[str],
        not_served: list[str],
    ) -> None:
        candidates: dict[Hashable, list[Rewriter]] = {}
        self._patches: dict[Hashable, Patch] = {}
        self._for_dynamo = target.exporter != TORCHSCRIPT
        for rewriter in rewriters:
            if target.ir != "onnx":
                not_served.append(_only_onnx(rewriter, target))
                continue
            try:
                names.find("torch.onnx")
                patch = _patch(rewriter)
            except names.NameNotFoundError as err:
                not_found.append(str(err))
                continue
            if target.exporter == DYNAMO and not _known_to_dynamo(rewriter):
                not_served.append(_no_operator(rewriter))
                continue
            self._patches[patch.key] = patch
            candidates.setdefault(patch.key, []).append(rewriter)
        self._layer = {key: Bound(each) for key, each in most_specific(candidates).items()}
        self.bound = list(self._layer.values())

    def enter(self, undo: ExitStack, context: Callable[[Callable[..., Any]], Any]) -> None:
        """Put them in force, and register with ``undo`` what takes them out again.

        Args:
            undo: Left by the caller on every path.
            context: Makes a rewriter's context from its original function.
        """
        if not self._layer:
            return
        from enginebay.rewriting.torchscript_symbolics import with_parsed_arguments

        patches = undo.enter_context(applied(self._patches[key] for key in self._layer))
        for patch in patches:
            bound = self._layer[patch.key]
            bound.context = context(patch.hidden_by(bound))
            bound.replacement = with_parsed_arguments(bound.rewriter)
        put_in_force(undo, self._layer)
        if self._for_dynamo:
            from enginebay.rewriting.dynamo_symbolics import serve

            serve(undo, [(self._layer[patch.key].rewriter, patch) for patch in patches])


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


def _known_to_dynamo(rewriter: Rewriter) -> bool:
    from enginebay.rewriting.dynamo_symbolics import overloads

    return not rewriter.is_pytorch or bool(overloads(rewriter.name))


def _only_onnx(rewriter: Rewriter, target: Target) -> str:
    return f'the symbolic of "{rewriter.name}" does nothing: it makes ONNX nodes, not {target.ir}'


def _no_operator(rewriter: Rewriter) -> str:
    return (
        f'the symbolic of "{rewriter.name}" does nothing in the dynamo exporter: '
        "torch.ops has no such operator; export with the torchscript exporter"
    )
