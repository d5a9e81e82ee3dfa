"""The report of one export: the rewriters that fired, and those that could not be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.display import join_names

if TYPE_CHECKING:
    from collections.abc import Iterator


class AppliedRewriter(msgspec.Struct, frozen=True, kw_only=True):
    """A rewriter whose conditions hold for the target of the export.

    Attributes:
        kind: ``function``, ``module``, ``symbolic`` or ``lowering``.
        name: The name of the replaced function, module or operator.
        origin: The dotted name of the replacement.
        condition: The conditions of the rewriter as text.
        distribution: The distribution that ships the rewriter; None for a rewriter of the caller.
        count: The number of replacements: calls of a function, instances of a module, nodes of a
            symbolic, operators of a lowering. A call may be counted several times, since exporters
            run a model more than once.
        fallback: True if all other rewriters of the same name take precedence.
        lost_to: The ``origin`` of the rewriter that was selected instead; empty if this rewriter
            was selected.
    """

    kind: str
    name: str
    origin: str
    condition: str
    distribution: str | None
    count: int
    fallback: bool = False
    lost_to: str = ""

    @property
    def loss(self) -> str:
        """The report's line that this rewriter was not used, and which rewriter has priority."""
        return f"{self.kind} {self.name}: {self.origin} was not used, {self.lost_to} has priority"


class RewriteReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of the rewriters of one ``rewrite`` context.

    Attributes:
        applied: Every active rewriter: function rewriters first, then module rewriters, symbolics
            and lowerings.
        not_found: One line for each rewriter whose name no loaded module has.
        not_served: One line for each rewriter without effect: a symbolic that the exporter cannot
            use, a lowering of an operator that no captured graph contains, or any rewriter of the
            caller if none of the caller's rewriters applies to the target.
        lost: The rewriters that were not selected, since another rewriter has priority.
    """

    applied: tuple[AppliedRewriter, ...] = ()
    not_found: tuple[str, ...] = ()
    not_served: tuple[str, ...] = ()
    lost: tuple[AppliedRewriter, ...] = ()

    @property
    def fired(self) -> dict[str, int]:
        """Name of each replaced function, module or operator → the number of its replacements."""
        counts: dict[str, int] = {}
        for rewriter in self.applied:
            if rewriter.count:
                counts[rewriter.name] = counts.get(rewriter.name, 0) + rewriter.count
        return counts

    @property
    def never_fired(self) -> tuple[str, ...]:
        """The names of the functions, modules and operators whose rewriters replaced nothing."""
        return tuple(rewriter.name for rewriter in self.applied if not rewriter.count)

    def lines(self) -> list[str]:
        """Return the report's lines: one for each active rewriter, then one for each problem."""
        fired = [f"{each.kind} {each.name}: {_format_count(each.count)}" for each in self.applied]
        lost = [each.loss for each in self.lost]
        return [*fired, *self.not_found, *self.not_served, *lost]

    def summarize(self, backend_distribution: str = "") -> Iterator[str]:
        """Yield a line on the rewriters that fired, a line on the others, and lines on problems.

        Args:
            backend_distribution: The distribution that ships the backend. Rewriters of this
                distribution and fallbacks are not listed if they did not fire or were not selected.
        """

        # Most models need few of these. --json lists them all.
        def is_usual(rewriter: AppliedRewriter) -> bool:
            return rewriter.fallback or rewriter.distribution == backend_distribution

        fired = [f"{each.name} ({each.count})" for each in self.applied if each.count]
        if fired:
            yield f"fired: {join_names(fired)}"
        idle = [each.name for each in self.applied if not (each.count or is_usual(each))]
        if idle:
            yield f"never fired: {join_names(idle)}"
        yield from self.not_found
        yield from self.not_served
        yield from (each.loss for each in self.lost if not is_usual(each))

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no rewriter applied"


def join_reports(first: RewriteReport | None, second: RewriteReport | None) -> RewriteReport | None:
    """Return the merged report of two ``rewrite`` contexts; None if both reports are None.

    The counts of a rewriter that was active in both contexts are added.
    """
    if first is None or second is None:
        return first or second
    counts: dict[AppliedRewriter, int] = {}
    for rewriter in (*first.applied, *second.applied):
        key = msgspec.structs.replace(rewriter, count=0)  # the counts may differ
        counts[key] = counts.get(key, 0) + rewriter.count
    return RewriteReport(
        applied=tuple(msgspec.structs.replace(key, count=n) for key, n in counts.items()),
        not_found=tuple(dict.fromkeys((*first.not_found, *second.not_found))),
        not_served=tuple(dict.fromkeys((*first.not_served, *second.not_served))),
        lost=tuple(dict.fromkeys((*first.lost, *second.lost))),
    )


def _format_count(count: int) -> str:
    return {0: "never fired", 1: "fired once"}.get(count, f"fired {count} times")
