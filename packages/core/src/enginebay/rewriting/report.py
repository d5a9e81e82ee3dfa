"""The report of one export: the rewriters that fired, and those that could not."""

from __future__ import annotations

import msgspec


class AppliedRewriter(msgspec.Struct, frozen=True, kw_only=True):
    """One rewriter that was active.

    Attributes:
        kind: ``function``, ``module``, ``symbolic`` or ``lowering``.
        name: The name of what it rewrites.
        origin: The dotted name of its own function or class.
        condition: Its conditions, in words.
        distribution: The distribution that ships it; None for one that the caller declared.
        count: Number of times that it fired: calls of a function, instances of a module, nodes of a
            symbolic, operators of a lowering. Exporters run a model more than once.
        lost_to: The origin of the one that was active in its place; empty where it was itself.
    """

    kind: str
    name: str
    origin: str
    condition: str
    distribution: str | None
    count: int
    lost_to: str = ""

    @property
    def loss(self) -> str:
        """What it lost to, in words."""
        return f"{self.kind} {self.name}: {self.origin} lost to {self.lost_to}"


class RewriteReport(msgspec.Struct, frozen=True, kw_only=True):
    """The work of the rewriters of one context.

    Attributes:
        applied: Every rewriter that was active, in the order of declaration.
        not_found: One line for each name that no loaded module has.
        not_served: One line for each symbolic that the exporter cannot use, and for each lowering
            of an operator that no captured graph has.
        lost: The rewriters that others won over.
    """

    applied: tuple[AppliedRewriter, ...] = ()
    not_found: tuple[str, ...] = ()
    not_served: tuple[str, ...] = ()
    lost: tuple[AppliedRewriter, ...] = ()

    @property
    def fired(self) -> dict[str, int]:
        """The number of times that each name was rewritten, for those that were."""
        counts: dict[str, int] = {}
        for rewriter in self.applied:
            if rewriter.count:
                counts[rewriter.name] = counts.get(rewriter.name, 0) + rewriter.count
        return counts

    @property
    def never_fired(self) -> tuple[str, ...]:
        """The names of the rewriters that were active and never fired."""
        return tuple(rewriter.name for rewriter in self.applied if not rewriter.count)

    def lines(self) -> list[str]:
        """Return the report for people, one line for each fact."""
        fired = [f"{each.kind} {each.name}: fired {_times(each.count)}" for each in self.applied]
        lost = [each.loss for each in self.lost]
        return [*fired, *self.not_found, *self.not_served, *lost]

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no rewriter applied"


def joined(first: RewriteReport | None, second: RewriteReport | None) -> RewriteReport | None:
    """Return the work of two contexts as one report; None where there was neither.

    A rewriter that was active in both is one in it.
    """
    if first is None or second is None:
        return first or second
    counts: dict[AppliedRewriter, int] = {}
    for each in (*first.applied, *second.applied):
        same = msgspec.structs.replace(each, count=0)
        counts[same] = counts.get(same, 0) + each.count
    return RewriteReport(
        applied=tuple(msgspec.structs.replace(each, count=n) for each, n in counts.items()),
        not_found=tuple(dict.fromkeys((*first.not_found, *second.not_found))),
        not_served=tuple(dict.fromkeys((*first.not_served, *second.not_served))),
        lost=tuple(dict.fromkeys((*first.lost, *second.lost))),
    )


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
