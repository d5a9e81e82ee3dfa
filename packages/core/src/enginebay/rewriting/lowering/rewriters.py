"""The lowerings of one ``rewrite`` context, and their use in captured graphs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.active_rewriters import ActiveRewriter
from enginebay.rewriting.lowering.lowered_operator import LoweredOperator
from enginebay.rewriting.lowering.observed_operators import observed_name
from enginebay.rewriting.lowering.onnx_decomposition import lower_in_onnx_exporter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from enginebay.rewriting.lowering.choice import LoweringChoice
    from enginebay.rewriting.lowering.graph_values import GraphValues
    from enginebay.rewriting.lowering.operators import Known
    from enginebay.torch_private import OpOverload


class _Layers(threading.local):
    """The lowerings of each ``rewrite`` context that the thread has entered, innermost last."""

    def __init__(self) -> None:  # runs once in every thread that reads an attribute
        self.entered: list[LoweringRewriters] = []


_layers = _Layers()


class LoweringRewriters:
    """The lowering rewriters of one ``rewrite`` context.

    Args:
        choice: The lowerings to use.
        fields: The fields of the target, which become attributes of ``ctx``.

    Attributes:
        operators: The operators that the engine supports; None if the backend does not list them.
    """

    def __init__(self, choice: LoweringChoice, fields: Mapping[str, Any]) -> None:
        self._choice = choice
        self._fields = dict(fields)
        known = fields["operators"]
        self.operators: frozenset[str] | None = None if known is None else frozenset(known)
        self._active = {one: ActiveRewriter(one) for one in choice.selection.selected}

    @property
    def active(self) -> list[ActiveRewriter]:
        """The selected lowerings.

        A lowering that is only for engines without the operator is included only once it has fired.
        """
        winners = {rewriter for group in self._choice.winners.values() for rewriter in group}
        return [
            active
            for rewriter, active in self._active.items()
            if active.count or (rewriter in winners and "lacking" not in rewriter.needs)
        ]

    def names(self, known: Known | None) -> set[str]:
        """Return the names of the operators that this and enclosing contexts lower.

        The names have no namespace and no overload, such as ``max``.

        Args:
            known: A function that returns True for an operator that the exporter translates; None
                if there is no exporter, or if the exporter translates all operators.
        """
        # With the operators that the exporter does not translate.
        lowerings = {**self._choice.select_untranslated(known), **self._choice.winners}
        names = {
            observed_name(overload, is_complex="complex" in rewriter.needs)
            for overload, group in lowerings.items()
            for rewriter in group
        }
        outer = self._outer_context()
        return names if outer is None else names | outer.names(known)

    @property
    def fired(self) -> int:
        """The number of calls that lowerings of this and of enclosing contexts have replaced."""
        outer = self._outer_context()
        return sum(each.count for each in self.active) + (0 if outer is None else outer.fired)

    def enter(self, undo: ExitStack) -> None:
        """Activate the lowerings for this thread's captures and for the default ONNX exporter."""
        if not self._active and self.operators is None:
            return
        layers = _layers.entered
        # Not always the innermost, nor this thread's: contexts inside generators end in any order.
        undo.callback(lambda: layers.remove(self))
        layers.append(self)
        if self._fields["ir"] == "onnx" and self._fields["exporter"] != "torchscript":
            lower_in_onnx_exporter(undo, self.table)

    def table(
        self,
        values: GraphValues,
        decompositions: Mapping[OpOverload, Callable[..., object]],
        known: Known | None = None,
    ) -> dict[OpOverload, LoweredOperator]:
        """Return a decomposition table for one graph, with all lowerings active in this thread.

        These are the lowerings of this ``rewrite`` context and of the contexts that enclose it.

        Args:
            values: The constants of the graph.
            decompositions: torch's own decompositions, for calls without an applicable lowering.
            known: A function that returns True for an operator that the exporter translates; None
                if there is no exporter, or if the exporter translates all operators.
        """
        outer = self._outer_context()
        table = {} if outer is None else outer.table(values, decompositions, known)
        # A lowering replaces an earlier one in the table, which becomes its ctx.origin_op.
        choice = self._choice
        for ranking in (choice.select_untranslated(known), choice.fallbacks, choice.winners):
            for overload, group in ranking.items():
                origin: Any = table.get(overload) or decompositions.get(overload)
                lowered = None
                for rewriter in reversed(group):  # the first one that applies to a call is used
                    lowered = table[overload] = LoweredOperator(
                        overload,
                        self._active[rewriter],
                        origin=origin,
                        fallback=lowered,
                        fields=self._fields,
                        values=values,
                    )
        return table

    def _outer_context(self) -> LoweringRewriters | None:
        layers = _layers.entered
        index = layers.index(self) if self in layers else 0
        return layers[index - 1] if index else None


def active_lowerings() -> LoweringRewriters | None:
    """Return the lowerings of the thread's innermost ``rewrite`` context; None if there is none."""
    return _layers.entered[-1] if _layers.entered else None
