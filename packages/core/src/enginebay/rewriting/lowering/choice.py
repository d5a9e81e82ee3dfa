"""Choice of the lowerings that one ``rewrite`` context uses; it changes nothing."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from enginebay.errors import RewriterError
from enginebay.rewriting.dotted_names import NameNotFoundError, find_name
from enginebay.rewriting.lowering.operators import (
    find_overloads,
    has_complex,
    is_listed,
    why_never_met,
)
from enginebay.rewriting.selection import Selection, select_most_specific

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from enginebay.rewriting.lowering.operators import Known
    from enginebay.rewriting.rewriter import Rewriter, Target
    from enginebay.torch_private import OpOverload

#: The lowerings of each operator, in the order in which they are tried.
Ranking: TypeAlias = "Mapping[OpOverload, Sequence[Rewriter]]"


@dataclass(frozen=True, kw_only=True)
class LoweringChoice:
    """The lowerings that one ``rewrite`` context uses.

    Attributes:
        winners: The lowerings that replace operators.
        fallbacks: Portable lowerings of operators for which another lowering is chosen; they are
            the other lowering's ``ctx.origin_op``.
        untranslated: Lowerings of operators that the exporter may be unable to translate.
        selection: All of these lowerings, and why the others are not used.
    """

    winners: Ranking
    fallbacks: Ranking
    untranslated: Ranking
    selection: Selection

    def select_untranslated(self, known: Known | None) -> Ranking:
        """Return the lowerings of operators that the exporter does not translate.

        Args:
            known: A function that returns True for an operator that the exporter translates; None
                if there is no exporter, or if the exporter translates all operators.
        """
        if known is None:
            return {}
        needed = {
            overload: [one for one in group if not known(overload, "complex" in one.needs)]
            for overload, group in self.untranslated.items()
        }
        return {overload: group for overload, group in needed.items() if group}


def choose_lowerings(rewriters: Iterable[Rewriter], target: Target) -> LoweringChoice:
    """Return the lowerings to use for a target.

    Args:
        rewriters: The lowerings whose conditions hold.
        target: The target that the model is exported for.

    Raises:
        RewriterError: Two lowerings are equally specific, or the backend's list of unsupported
            operators contains an invalid name.
    """
    _check_lacking_names(target.lacking, target.backend)
    not_found, not_served = [], []
    candidates: dict[OpOverload, list[Rewriter]] = {}
    untranslated: dict[OpOverload, list[Rewriter]] = {}
    for rewriter in rewriters:
        try:
            if "torch" not in sys.modules:
                find_name("torch.ops")  # fails; torch must not be imported here
            overloads = find_overloads(rewriter.name)
        except NameNotFoundError as err:
            not_found.append(f'the lowering of "{rewriter.name}" was not used: {err}')
            continue
        if reason := why_never_met(overloads):
            not_served.append(f'the lowering of "{rewriter.name}" does nothing: {reason}')
            continue
        for overload in overloads:
            if "lacking" not in rewriter.needs or _is_lacking(overload, rewriter, target):
                candidates.setdefault(overload, []).append(rewriter)
            elif target.operators is None:
                untranslated.setdefault(overload, []).append(rewriter)
    winners = _rank_lowerings(candidates)
    rankings = (winners, _rank_fallbacks(candidates, winners), _rank_lowerings(untranslated))
    selected = dict.fromkeys(one for each in rankings for group in each.values() for one in group)
    lost = {
        each: winners[overload][0]
        for overload, group in candidates.items()
        for each in group
        if each not in selected
    }
    return LoweringChoice(
        winners=rankings[0],
        fallbacks=rankings[1],
        untranslated=rankings[2],
        selection=Selection(tuple(selected), tuple(not_found), tuple(not_served), lost),
    )


def _is_lacking(overload: OpOverload, rewriter: Rewriter, target: Target) -> bool:
    if target.operators is None:
        return bool(target.lacking) and is_listed(overload, target.lacking)
    if "complex" in rewriter.needs and not has_complex(target.operators):
        return True
    return not is_listed(overload, target.operators)


def _check_lacking_names(operators: Iterable[str], backend: str) -> None:
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


def _rank_fallbacks(
    candidates: Mapping[OpOverload, list[Rewriter]], winners: Ranking
) -> dict[OpOverload, list[Rewriter]]:
    """Return the portable lowerings of operators whose first lowering is another one."""
    return _rank_lowerings(
        {
            overload: portable
            for overload, group in candidates.items()
            if not _is_portable(winners[overload][0])
            and (portable := [rewriter for rewriter in group if _is_portable(rewriter)])
        }
    )


def _is_portable(rewriter: Rewriter) -> bool:
    return rewriter.fallback and "lacking" in rewriter.needs


def _rank_lowerings(
    candidates: Mapping[OpOverload, list[Rewriter]],
) -> dict[OpOverload, list[Rewriter]]:
    """Return the lowerings of each operator in the order in which they are tried.

    A lowering for complex numbers comes first, then a lowering for fixed sizes, then a general one.
    But a lowering with a higher rank comes before all others: the caller's before a plugin's, and a
    plugin's before a fallback.
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
