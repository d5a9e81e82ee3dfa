"""The lowerings of one context: chosen, and active while a graph is captured in it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from enginebay.errors import RewriterError
from enginebay.rewriting import names
from enginebay.rewriting.active_rewriters import ActiveRewriter
from enginebay.rewriting.lowering.met import met_as
from enginebay.rewriting.rewriter import CORE
from enginebay.rewriting.selection import most_specific

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack

    from torch._ops import OpOverload

    from enginebay.rewriting.lowering.calls import LoweredOperator
    from enginebay.rewriting.lowering.operators import Known
    from enginebay.rewriting.rewriter import Lost, Rewriter


class _Layers(threading.local):
    """The lowerings of the contexts that the thread has entered, the innermost last."""

    # A subclass, whose __init__ runs once in every thread that looks.
    def __init__(self) -> None:
        self.entered: list[LoweringRewriters] = []


_layers = _Layers()


class LoweringRewriters:
    """The lowering rewriters of one context.

    Args:
        rewriters: Those that apply, losers included.
        fields: The fields of the target, for the lowerings' context.
        not_found: Gets one line for each operator that torch does not have.
        not_served: Gets one line for each operator that no captured graph has.
        lost: Gets the losers, each with its winner.

    Attributes:
        operators: The operators that the engine has; None where it does not say.

    Raises:
        RewriterError: Two are equally specific, or the engine lacks an operator that is none.
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
        _check_lacking(self._fields["lacking"], self._fields["backend"])
        candidates: dict[OpOverload, list[Rewriter]] = {}
        spare: dict[OpOverload, list[Rewriter]] = {}
        for rewriter in rewriters:
            for overload in _overloads(rewriter, not_found, not_served):
                if "lacking" not in rewriter.needs or self._lacks(overload, rewriter):
                    candidates.setdefault(overload, []).append(rewriter)
                elif self.operators is None:
                    spare.setdefault(overload, []).append(rewriter)
        self._winners = _winners(candidates)
        #: For operators that the engine lacks, core's that gave way to those that ask for nothing.
        self._under = _winners(
            {
                key: core
                for key, found in candidates.items()
                if not _is_portable(self._winners[key][0])
                and (core := [one for one in found if _is_portable(one)])
            }
        )
        #: Those for operators that an exporter may turn out to lack.
        self._spare = _winners(spare)
        tables = (self._winners, self._under, self._spare)
        every = [one for table in tables for winners in table.values() for one in winners]
        self._active = {one: ActiveRewriter(one) for one in dict.fromkeys(every)}
        for key, group in candidates.items():
            lost.update((each, self._winners[key][0]) for each in group if each not in self._active)

    @property
    def active(self) -> list[ActiveRewriter]:
        """The winners; of those for operators that an engine lacks the ones that fired."""
        winners = {one for group in self._winners.values() for one in group}
        return [
            each
            for one, each in self._active.items()
            if each.count or (one in winners and "lacking" not in one.needs)
        ]

    def names(self, known: Known | None) -> set[str]:
        """Return the names of the operators that have one, without namespace and overload.

        Args:
            known: As for :meth:`table`.
        """
        own = {
            met_as(overload, is_complex="complex" in one.needs)
            for overload, winners in self._chosen(known).items()
            for one in winners
        }
        outer = self._outer()
        return own if outer is None else own | outer.names(known)

    def _chosen(self, known: Known | None) -> dict[OpOverload, list[Rewriter]]:
        """The lowerings by operator, with those for operators that an exporter lacks."""
        return {**self._lacked(known), **self._winners}

    def _lacked(self, known: Known | None) -> dict[OpOverload, list[Rewriter]]:
        """The lowerings for operators that an exporter lacks."""
        if known is None:
            return {}
        lacked = {
            each: [one for one in group if not known(each, "complex" in one.needs)]
            for each, group in self._spare.items()
        }
        return {each: left for each, left in lacked.items() if left}

    @property
    def fired(self) -> int:
        """The number of times that any of them fired."""
        outer = self._outer()
        return sum(each.count for each in self.active) + (0 if outer is None else outer.fired)

    def _lacks(self, overload: OpOverload, rewriter: Rewriter) -> bool:
        from enginebay.rewriting.lowering.operators import has_complex, is_among

        if self.operators is None:
            return is_among(overload, self._fields["lacking"])
        if "complex" in rewriter.needs and not has_complex(self.operators):
            return True
        return not is_among(overload, self.operators)

    def enter(self, undo: ExitStack) -> None:
        """Let the captures of this thread use them, torch's default ONNX exporter's too."""
        if not self._active and self.operators is None:
            return
        layers = _layers.entered
        # Not always the innermost, nor this thread's: contexts inside generators end in any order.
        undo.callback(lambda: layers.remove(self))
        layers.append(self)
        if self._fields["ir"] == "onnx" and self._fields["exporter"] != "torchscript":
            import torch.onnx._internal.exporter._fx_passes  # noqa: F401  # for the name to be found

            from enginebay.rewriting.patches import replace_functions

            replace_functions(undo, {_DECOMPOSE: self._decompose})

    def table(
        self,
        values: Any,
        otherwise: Mapping[OpOverload, Callable[..., Any]],
        known: Known | None = None,
    ) -> dict[OpOverload, LoweredOperator]:
        """Return a table of decompositions for one graph, those of outer contexts with them.

        Args:
            values: The constants of the graph.
            otherwise: What takes an operator apart where its lowering does not apply.
            known: Tells which operators the exporter translates; None where there is no exporter
                that lacks any.
        """
        from enginebay.rewriting.lowering.calls import LoweredOperator

        outer = self._outer()
        table = {} if outer is None else outer.table(values, otherwise, known)
        # Each one's ctx.origin_op is the one in front of it here, and torch's own for the first.
        for lowerings in (self._lacked(known), self._under, self._winners):
            for overload, group in lowerings.items():
                origin: Any = table.get(overload) or otherwise.get(overload)
                lowered = None
                for one in reversed(group):  # each one where those before it do not apply
                    lowered = LoweredOperator(overload, self._active[one], origin, lowered)
                    lowered.context(self._fields, values)
                    table[overload] = lowered
        return table

    def _outer(self) -> LoweringRewriters | None:
        layers = _layers.entered
        place = layers.index(self) if self in layers else 0
        return layers[place - 1] if place else None

    def _decompose(self, original: Callable[..., Any], /, program: Any, registry: Any) -> Any:
        """The default exporter's decomposition of a program, with the lowerings in its table."""
        del original  # it makes its table and uses it in one go
        from torch.onnx._internal.exporter import _decomp

        from enginebay.rewriting.lowering.calls import plain_errors
        from enginebay.rewriting.lowering.context import GraphValues
        from enginebay.rewriting.lowering.decomposition import decompose
        from enginebay.rewriting.lowering.folding import fold_lacking

        every = set(_decomp.get_onnx_implemented_overloads(registry))
        of_complex = {
            overload
            for overload, metas in registry.functions.items()
            if any(meta.is_complex for meta in metas)
        }
        table: dict[Any, Any] = _decomp.create_onnx_friendly_decomposition_table(every)

        def known(overload: OpOverload, is_complex: bool) -> bool:
            return overload in (of_complex if is_complex else every)

        with plain_errors():
            values = GraphValues.of(program)
            own = self.table(values, table, known)
            lowered = decompose(program, {**table, **own}, values)
        fold_lacking(lowered, known)
        return lowered


def _overloads(rewriter: Rewriter, not_found: list[str], not_served: list[str]) -> list[OpOverload]:
    """The operators that a lowering may meet; the reason goes to a list where there are none."""
    from enginebay.rewriting.lowering.operators import overloads_of, why_never_met

    try:
        names.find("torch.ops")  # without torch nothing is exported, and nothing imported
        overloads = overloads_of(rewriter.name)
    except names.NameNotFoundError as err:
        not_found.append(f'the lowering of "{rewriter.name}" was not used: {err}')
        return []
    if reason := why_never_met(overloads):
        not_served.append(f'the lowering of "{rewriter.name}" does nothing: {reason}')
        return []
    return overloads


def _check_lacking(operators: Iterable[str], backend: str) -> None:
    """Refuse names that torch does not have; those of other libraries may be loaded later."""
    from enginebay.rewriting.lowering.operators import overloads_of

    for name in operators:
        full = name if "." in name else f"aten.{name}"
        reason = f'wanted "{full}"' if full != name else ""
        try:
            if full.startswith("aten."):
                overloads_of(full)
        except names.NameNotFoundError as err:
            reason = str(err)
        if reason:
            raise RewriterError(f"BackendInfo.lacking of '{backend}' has \"{name}\": {reason}")


def _is_portable(rewriter: Rewriter) -> bool:
    return rewriter.distribution == CORE and "lacking" in rewriter.needs


def _winners(
    candidates: Mapping[OpOverload, list[Rewriter]],
) -> dict[OpOverload, list[Rewriter]]:
    """The most specific lowering of each operator, and those for where it does not apply.

    One for complex numbers comes first, then one for fixed sizes, where nobody with more say has
    one for all: the caller before a plugin, and a plugin before core.
    """
    plain = {
        key: left
        for key, found in candidates.items()
        if (left := [each for each in found if "complex" not in each.needs])
    }
    of_complex = most_specific(
        {
            key: left
            for key, found in candidates.items()
            if (left := [each for each in found if "complex" in each.needs])
        }
    )
    winners = _by_size(plain)
    for key, one in of_complex.items():
        others = winners.get(key, [])
        if not others or one.rank >= others[0].rank:
            winners[key] = [one, *others]
    return winners


def _by_size(candidates: Mapping[OpOverload, list[Rewriter]]) -> dict[OpOverload, list[Rewriter]]:
    """The most specific lowering of each operator; after one for fixed sizes the next for open."""
    general = {
        key: left
        for key, found in candidates.items()
        if (left := [each for each in found if "dims" not in each.needs])
    }
    best, second = most_specific(candidates), most_specific(general)
    return {
        key: [one, second[key]] if "dims" in one.needs and key in second else [one]
        for key, one in best.items()
    }


#: torch's function that takes a program apart for ONNX; private, as of torch 2.13.
_DECOMPOSE = "torch.onnx._internal.exporter._fx_passes.decompose_with_registry"


def active_lowerings() -> LoweringRewriters | None:
    """Return the lowerings that are active in the calling thread; None for none."""
    return _layers.entered[-1] if _layers.entered else None
