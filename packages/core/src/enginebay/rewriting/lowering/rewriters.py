"""Selection of the lowerings of one ``rewrite`` context, and their use in captured graphs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.errors import RewriterError
from enginebay.rewriting.active_rewriters import ActiveRewriter
from enginebay.rewriting.dotted_names import NameNotFoundError, find_name
from enginebay.rewriting.lowering.observed_operators import observed_name
from enginebay.rewriting.selection import select_most_specific

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack

    from torch.export import ExportedProgram

    from enginebay.rewriting.lowering.graph_values import GraphValues
    from enginebay.rewriting.lowering.lowered_operator import LoweredOperator
    from enginebay.rewriting.lowering.operators import Known
    from enginebay.rewriting.rewriter import Lost, Rewriter
    from enginebay.torch_private import ONNXRegistry, OpOverload


class _Layers(threading.local):
    """The lowerings of each ``rewrite`` context that the thread has entered, innermost last."""

    def __init__(self) -> None:  # runs once in every thread that reads an attribute
        self.entered: list[LoweringRewriters] = []


_layers = _Layers()


class LoweringRewriters:
    """The lowering rewriters of one ``rewrite`` context.

    Args:
        rewriters: The lowerings whose conditions hold.
        fields: The fields of the target, which become attributes of ``ctx``.
        not_found: A list to extend by one line for each lowering of an operator that torch
            does not have.
        not_served: A list to extend by one line for each lowering of an operator that no captured
            graph contains.
        lost: A dictionary to extend: rewriter that is not selected → the rewriter selected instead.

    Attributes:
        operators: The operators that the engine supports; None if the backend does not list them.

    Raises:
        RewriterError: Two lowerings are equally specific, or the backend's list of unsupported
            operators contains an invalid name.
    """

    def __init__(
        self,
        rewriters: Iterable[Rewriter],
        fields: Mapping[str, Any],
        not_found: list[str],
        not_served: list[str],
        lost: Lost,
    ) -> None:
        self._fields = dict(fields)
        known = fields["operators"]
        self.operators: frozenset[str] | None = None if known is None else frozenset(known)
        _check_lacking_names(self._fields["lacking"], self._fields["backend"])
        candidates: dict[OpOverload, list[Rewriter]] = {}
        untranslated: dict[OpOverload, list[Rewriter]] = {}
        for rewriter in rewriters:
            for overload in _find_usable_overloads(rewriter, not_found, not_served):
                if "lacking" not in rewriter.needs or self._is_lacking(overload, rewriter):
                    candidates.setdefault(overload, []).append(rewriter)
                elif self.operators is None:
                    untranslated.setdefault(overload, []).append(rewriter)
        self._winners = _rank_winners(candidates)
        #: Portable lowerings of operators for which another lowering is selected; they are
        #: the other lowering's ctx.origin_op.
        self._fallbacks = _rank_winners(
            {
                key: core
                for key, group in candidates.items()
                if not _is_portable(self._winners[key][0])
                and (core := [rewriter for rewriter in group if _is_portable(rewriter)])
            }
        )
        #: Lowerings of operators that the exporter may be unable to translate.
        self._untranslated = _rank_winners(untranslated)
        tables = (self._winners, self._fallbacks, self._untranslated)
        selected = [one for table in tables for winners in table.values() for one in winners]
        self._active = {one: ActiveRewriter(one) for one in dict.fromkeys(selected)}
        for key, group in candidates.items():
            lost.update((each, self._winners[key][0]) for each in group if each not in self._active)

    @property
    def active(self) -> list[ActiveRewriter]:
        """The selected lowerings.

        A lowering that is only for engines without the operator is included only once it has fired.
        """
        winners = {rewriter for group in self._winners.values() for rewriter in group}
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
        names = {
            observed_name(overload, is_complex="complex" in rewriter.needs)
            for overload, winners in self._select_lowerings(known).items()
            for rewriter in winners
        }
        outer = self._outer_context()
        return names if outer is None else names | outer.names(known)

    def _select_lowerings(self, known: Known | None) -> dict[OpOverload, list[Rewriter]]:
        """Return the lowerings of each operator, in the order in which they are tried.

        Lowerings of operators that the exporter does not translate (``known`` returns False) are
        included.
        """
        return {**self._select_untranslated(known), **self._winners}

    def _select_untranslated(self, known: Known | None) -> dict[OpOverload, list[Rewriter]]:
        if known is None:
            return {}
        needed = {
            overload: [one for one in group if not known(overload, "complex" in one.needs)]
            for overload, group in self._untranslated.items()
        }
        return {overload: group for overload, group in needed.items() if group}

    @property
    def fired(self) -> int:
        """The number of calls that lowerings of this and of enclosing contexts have replaced."""
        outer = self._outer_context()
        return sum(each.count for each in self.active) + (0 if outer is None else outer.fired)

    def _is_lacking(self, overload: OpOverload, rewriter: Rewriter) -> bool:
        from enginebay.rewriting.lowering.operators import has_complex, is_listed

        if self.operators is None:
            return is_listed(overload, self._fields["lacking"])
        if "complex" in rewriter.needs and not has_complex(self.operators):
            return True
        return not is_listed(overload, self.operators)

    def enter(self, undo: ExitStack) -> None:
        """Activate the lowerings for this thread's captures and for the default ONNX exporter."""
        if not self._active and self.operators is None:
            return
        layers = _layers.entered
        # Not always the innermost, nor this thread's: contexts inside generators end in any order.
        undo.callback(lambda: layers.remove(self))
        layers.append(self)
        if self._fields["ir"] == "onnx" and self._fields["exporter"] != "torchscript":
            from enginebay.rewriting.patches import replace_functions

            replace_functions(undo, {torch_private.name_of_onnx_decomposer(): self._decompose})

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
        from enginebay.rewriting.lowering.lowered_operator import LoweredOperator

        outer = self._outer_context()
        table = {} if outer is None else outer.table(values, decompositions, known)
        # A lowering replaces an earlier one in the table, which becomes its ctx.origin_op.
        for lowerings in (self._select_untranslated(known), self._fallbacks, self._winners):
            for overload, group in lowerings.items():
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

    def _decompose(
        self, original: object, /, program: ExportedProgram, registry: ONNXRegistry
    ) -> ExportedProgram:
        """Apply the default exporter's decompositions and the lowerings; return the new program."""
        del original  # it builds its table itself, and accepts no other
        from enginebay.rewriting.lowering.decomposition import decompose
        from enginebay.rewriting.lowering.folding import fold_lacking
        from enginebay.rewriting.lowering.graph_values import GraphValues
        from enginebay.rewriting.lowering.lowered_operator import strip_graph_reports

        translated = torch_private.translated_overloads(registry)
        table = torch_private.onnx_decompositions(translated)

        def known(overload: OpOverload, is_complex: bool) -> bool:
            # The few translations for complex numbers are not used: all of these are lowered.
            return not is_complex and overload in translated

        with strip_graph_reports():
            values = GraphValues.from_program(program)
            lowerings = self.table(values, table, known)
            table.update(lowerings.items())
            lowered = decompose(program, table, values)
        fold_lacking(lowered, known)
        return lowered


def _find_usable_overloads(
    rewriter: Rewriter, not_found: list[str], not_served: list[str]
) -> list[OpOverload]:
    """Return the overloads that a lowering can replace.

    If there are none, a line is added to a list: to ``not_found`` if torch does not have the
    operator, otherwise to ``not_served``.
    """
    from enginebay.rewriting.lowering.operators import find_overloads, why_never_met

    try:
        find_name("torch.ops")  # fails if torch is not loaded; it must not be imported here
        overloads = find_overloads(rewriter.name)
    except NameNotFoundError as err:
        not_found.append(f'the lowering of "{rewriter.name}" was not used: {err}')
        return []
    if reason := why_never_met(overloads):
        not_served.append(f'the lowering of "{rewriter.name}" does nothing: {reason}')
        return []
    return overloads


def _check_lacking_names(operators: Iterable[str], backend: str) -> None:
    from enginebay.rewriting.lowering.operators import find_overloads

    for name in operators:
        full = name if "." in name else f"aten.{name}"
        reason = f'expected "{full}"' if full != name else ""
        try:
            if full.startswith("aten."):  # other libraries may be loaded later
                find_overloads(full)
        except NameNotFoundError as err:
            reason = str(err)
        if reason:
            raise RewriterError(f"BackendInfo.lacking of '{backend}' contains \"{name}\": {reason}")


def _is_portable(rewriter: Rewriter) -> bool:
    return rewriter.fallback and "lacking" in rewriter.needs


def _rank_winners(
    candidates: Mapping[OpOverload, list[Rewriter]],
) -> dict[OpOverload, list[Rewriter]]:
    """Return the lowerings of each operator in the order in which they are tried.

    A lowering for complex numbers comes first, then a lowering for fixed sizes, then a general one.
    But a lowering with a higher rank comes before all others: the caller's before a plugin's, and a
    plugin's before core's.
    """
    real = {
        key: group
        for key, every in candidates.items()
        if (group := [each for each in every if "complex" not in each.needs])
    }
    complex_winners = select_most_specific(
        {
            key: group
            for key, every in candidates.items()
            if (group := [each for each in every if "complex" in each.needs])
        }
    )
    winners = _rank_by_size(real)
    for key, rewriter in complex_winners.items():
        others = winners.get(key, [])
        if not others or rewriter.rank >= others[0].rank:
            winners[key] = [rewriter, *others]
    return winners


def _rank_by_size(
    candidates: Mapping[OpOverload, list[Rewriter]],
) -> dict[OpOverload, list[Rewriter]]:
    """Return a list for each operator, which begins with its most specific lowering.

    If this lowering requires fixed sizes, the list also has the most specific lowering that
    accepts dynamic sizes.
    """
    general = {
        key: group
        for key, every in candidates.items()
        if (group := [each for each in every if "dims" not in each.needs])
    }
    best, second = select_most_specific(candidates), select_most_specific(general)
    return {
        key: [one, second[key]] if "dims" in one.needs and key in second else [one]
        for key, one in best.items()
    }


def active_lowerings() -> LoweringRewriters | None:
    """Return the lowerings of the thread's innermost ``rewrite`` context; None if there is none."""
    return _layers.entered[-1] if _layers.entered else None
