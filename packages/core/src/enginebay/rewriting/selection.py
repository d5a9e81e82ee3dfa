"""Selection of the rewriters that apply to a target, and of the most specific one for each name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeVar

from enginebay.errors import RewriterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay.params import IRKind
    from enginebay.rewriting.rewriter import Rewriter, Target

_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True)
class Selection:
    """The rewriters that one step of the selection keeps, and why the others are not used.

    Attributes:
        selected: The rewriters that are kept.
        not_found: One line for each rewriter whose name no loaded module has.
        not_served: One line for each rewriter that could have no effect.
        lost: Rewriter that is not kept → the rewriter that is used instead.
    """

    selected: tuple[Rewriter, ...] = ()
    not_found: tuple[str, ...] = ()
    not_served: tuple[str, ...] = ()
    lost: Mapping[Rewriter, Rewriter] = field(default_factory=dict)


def select_applicable(rewriters: Sequence[Rewriter], target: Target) -> Selection:
    """Return the rewriters whose conditions all hold for the target, in their given order.

    If the caller's own rewriters are for other targets only, there is a line for each of them.
    """
    selected = tuple(
        rewriter
        for rewriter in rewriters
        if _static_conditions_hold(rewriter, target.backend, target.ir)
        and (rewriter.check is None or rewriter.check(target))
    )
    # A set for several backends has rewriters that do not apply: that is no line.
    callers = [rewriter for rewriter in rewriters if rewriter.distribution is None]
    unused = callers if set(callers).isdisjoint(selected) else []
    lines = (
        f'the {rewriter.kind} rewriter of "{rewriter.name}" does nothing: it is for '
        f"{rewriter.condition}"
        for rewriter in unused
    )
    return Selection(selected, not_served=tuple(lines))


def select_for_each(
    candidates: Mapping[_K, Sequence[Rewriter]],
    not_found: Iterable[str] = (),
    not_served: Iterable[str] = (),
) -> tuple[dict[_K, Rewriter], Selection]:
    """Return what :func:`select_most_specific` returns, and the selection with all lines."""
    winners = select_most_specific(candidates)
    lost = {
        rewriter: winner
        for key, winner in winners.items()
        for rewriter in candidates[key]
        if rewriter is not winner
    }
    selected = tuple(winners.values())
    return winners, Selection(selected, tuple(not_found), tuple(not_served), lost)


def select_most_specific(candidates: Mapping[_K, Sequence[Rewriter]]) -> dict[_K, Rewriter]:
    """Return the most specific rewriter for each key of ``candidates``.

    Args:
        candidates: What is replaced, such as a function → all rewriters that replace it.

    Raises:
        RewriterError: Two rewriters for one key are equally specific.
    """
    return {key: _pick_winner(rewriters) for key, rewriters in candidates.items()}


def drop_outranked(rewriters: Iterable[Rewriter], later: Iterable[Rewriter]) -> Selection:
    """Return the rewriters without those that would hide a higher-ranked rewriter of a later step.

    Functions are replaced first, then operators are lowered, and finally operators are translated
    to ONNX by symbolics. A rewriter of an earlier step hides rewriters of the same operator in
    later steps. The caller's rewriters have the highest rank, and fallbacks the lowest.

    Args:
        rewriters: Function rewriters, or lowerings.
        later: The rewriters for later steps: lowerings and symbolics.
    """
    highest = {each.operator: each for each in sorted(later, key=lambda each: each.rank)}
    remaining, lost = [], {}
    for rewriter in rewriters:
        winner = highest.get(rewriter.operator)
        # A lowering for complex numbers only does not hide others.
        if winner is None or winner.rank <= rewriter.rank or "complex" in rewriter.needs:
            remaining.append(rewriter)
        else:
            lost[rewriter] = winner
    return Selection(tuple(remaining), lost=lost)


def list_rewriters(
    rewriters: Iterable[Iterable[Rewriter]], *, backend: str, ir: IRKind = "onnx"
) -> dict[Rewriter, Rewriter | None]:
    """Return the rewriters for a backend; of several for the same name, the most specific is first.

    Args:
        rewriters: The sets to select from.
        backend: The backend's name.
        ir: The IR's kind.

    Returns:
        Rewriter → the rewriter that is used instead; None if the rewriter itself may be used. A
        ``check`` and the ``needs`` of a lowering are only evaluated during an export. If they
        are false, the next rewriter for the same name is used; so both rewriters map to None.
    """
    by_name: dict[tuple[str, str], list[Rewriter]] = {}
    for rewriter in (each for group in rewriters for each in group):
        if _static_conditions_hold(rewriter, backend, ir):
            by_name.setdefault((rewriter.kind, rewriter.name), []).append(rewriter)
    listed: dict[Rewriter, Rewriter | None] = {}
    for key in sorted(by_name):
        winner = None
        for rewriter in sorted(by_name[key], key=_specificity_key, reverse=True):
            listed[rewriter] = winner
            if winner is None and rewriter.check is None and not rewriter.needs:
                winner = rewriter
    lost: dict[Rewriter, Rewriter] = {}
    later: list[Rewriter] = []
    for kind in ("symbolic", "lowering", "function"):
        group = [each for each, winner in listed.items() if each.kind == kind and winner is None]
        step = drop_outranked(group, later)
        lost.update(step.lost)
        if kind != "symbolic" or ir == "onnx":
            later += [each for each in step.selected if each.check is None and not each.needs]
    return listed | lost


def _specificity_key(rewriter: Rewriter) -> tuple[int, ...]:
    # A larger key is more specific. The documentation promises this order: the rank first, then a
    # condition on the backend, on the IR, and so on.
    return (
        rewriter.rank,
        rewriter.backend is not None,
        rewriter.ir is not None,
        bool(rewriter.versions),
        rewriter.check is not None,
        bool(rewriter.needs),
        rewriter.kind == "lowering" and rewriter.name.count(".") > 1,  # it names one overload
    )


def _pick_winner(rewriters: Sequence[Rewriter]) -> Rewriter:
    if len(rewriters) == 1:
        return rewriters[0]
    highest = max(map(_specificity_key, rewriters))
    best, *tied = (each for each in rewriters if _specificity_key(each) == highest)
    if tied:
        raise _tie_error(best, tied[0])
    return best


def _tie_error(first: Rewriter, second: Rewriter) -> RewriterError:
    def describe(rewriter: Rewriter) -> str:
        source = f" of {rewriter.distribution}" if rewriter.distribution else ""
        return f"{rewriter.origin}{source} ({rewriter.condition})"

    return RewriterError(
        f'two equally specific {first.kind} rewriters are for "{first.name}": '
        f"{describe(first)} and {describe(second)}",
        hint="add a condition to one of them: backend=, ir=, versions= or check=",
    )


def _static_conditions_hold(rewriter: Rewriter, backend: str, ir: IRKind) -> bool:
    return (
        (rewriter.backend is None or rewriter.backend == backend)
        and (rewriter.ir is None or rewriter.ir == ir)
        and (not rewriter.versions or _versions_hold(rewriter.versions))
    )


def _versions_hold(versions: Mapping[str, str]) -> bool:
    from packaging.specifiers import SpecifierSet

    try:
        return all(
            # Nightly builds of torch are prereleases.
            SpecifierSet(specifier).contains(_find_version(distribution), prereleases=True)
            for distribution, specifier in versions.items()
        )
    except PackageNotFoundError:
        return False


# What is not found is not stored: distributions may be installed while the process runs.
_find_version = cache(version)
