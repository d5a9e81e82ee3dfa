"""Selection: the rewriters that apply to a target, and the winner of several for one name."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeVar

from enginebay.errors import RewriterError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from enginebay.ir import IRKind
    from enginebay.rewriting.rewriter import Lost, Rewriter, Target

    VersionOf = Callable[[str], str | None]

_K = TypeVar("_K", bound="Hashable")


def applicable(rewriters: Iterable[Rewriter], target: Target) -> list[Rewriter]:
    """Return the rewriters whose conditions all hold, in their order."""
    version_of = _version_lookup()
    return [
        rewriter
        for rewriter in rewriters
        if _static_conditions_hold(rewriter, target.backend, target.ir, version_of)
        and (rewriter.check is None or rewriter.check(target))
    ]


def most_specific(
    candidates: Mapping[_K, list[Rewriter]], lost: Lost | None = None
) -> dict[_K, Rewriter]:
    """Return, of the candidates for each key, the one with the strongest conditions.

    Args:
        candidates: The rewriters for each key.
        lost: Gets each of the others, with the one that won.

    Raises:
        RewriterError: Two of them are equally specific.
    """
    winners = {key: _winner(rewriters) for key, rewriters in candidates.items()}
    if lost is not None:
        for key, one in winners.items():
            lost.update((each, one) for each in candidates[key] if each is not one)
    return winners


def outranked(
    rewriters: Iterable[Rewriter], later: Iterable[Rewriter], lost: Lost
) -> list[Rewriter]:
    """Return the rewriters that may act before others for the same operator.

    A function is replaced before its operator is lowered, and both before the operator becomes
    ONNX. What acts first would hide the others, and gives way where these count more.

    Args:
        rewriters: Functions and lowerings.
        later: What acts after them: lowerings and symbolics.
        lost: Gets each of those that give way, with the one that won.
    """
    highest = {one.operator: one for one in sorted(later, key=lambda each: each.rank)}
    kept = []
    for each in rewriters:
        winner = highest.get(each.operator)
        # What is for complex numbers alone is in nobody's way.
        if winner is None or winner.rank <= each.rank or "complex" in each.needs:
            kept.append(each)
        else:
            lost[each] = winner
    return kept


def list_rewriters(
    rewriters: Iterable[Iterable[Rewriter]], *, backend: str, ir: IRKind = "onnx"
) -> dict[Rewriter, Rewriter | None]:
    """List the rewriters for a backend, the most specific first for each name.

    Those that would apply have None; a rewriter with a check of its own is among them, since only
    an export can call the check, and so is the one that applies where the check returns False. The
    same holds for what a lowering needs. The others have the one that they lose to.

    Args:
        rewriters: The sets to choose from.
        backend: The backend's name.
        ir: The IR's kind.
    """
    version_of = _version_lookup()
    by_name: dict[tuple[str, str], list[Rewriter]] = {}
    for rewriter in (each for group in rewriters for each in group):
        if _static_conditions_hold(rewriter, backend, ir, version_of):
            by_name.setdefault((rewriter.kind, rewriter.name), []).append(rewriter)
    listed: dict[Rewriter, Rewriter | None] = {}
    for key in sorted(by_name):
        winner = None
        for rewriter in sorted(by_name[key], key=_specificity, reverse=True):
            listed[rewriter] = winner
            if winner is None and rewriter.check is None and not rewriter.needs:
                winner = rewriter
    lost: Lost = {}
    later: list[Rewriter] = []
    for kind in ("symbolic", "lowering", "function"):
        group = [one for one, winner in listed.items() if one.kind == kind and winner is None]
        kept = outranked(group, later, lost)
        if kind != "symbolic" or ir == "onnx":
            later += [one for one in kept if one.check is None and not one.needs]
    return listed | lost


def _specificity(rewriter: Rewriter) -> tuple[int, ...]:
    """Return a key to sort by: the larger, the more specific."""
    # The order is the contract: the caller's own beats a plugin's, and a plugin's core's; among
    # these a backend's beats one for its IR, and so on.
    return (
        rewriter.rank,
        rewriter.backend is not None,
        rewriter.ir is not None,
        bool(rewriter.versions),
        rewriter.check is not None,
        bool(rewriter.needs),
        rewriter.kind == "lowering" and rewriter.name.count(".") > 1,  # one overload by its name
    )


def _winner(rewriters: list[Rewriter]) -> Rewriter:
    if len(rewriters) == 1:
        return rewriters[0]
    highest = max(map(_specificity, rewriters))
    best, *tied = (each for each in rewriters if _specificity(each) == highest)
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
        hint="give one of them a further condition: backend=, ir=, versions= or check=",
    )


def _static_conditions_hold(
    rewriter: Rewriter, backend: str, ir: IRKind, version_of: VersionOf
) -> bool:
    return (
        (rewriter.backend is None or rewriter.backend == backend)
        and (rewriter.ir is None or rewriter.ir == ir)
        and (not rewriter.versions or _versions_hold(rewriter.versions, version_of))
    )


def _versions_hold(wanted: Mapping[str, str], version_of: VersionOf) -> bool:
    from packaging.specifiers import SpecifierSet

    return all(
        (found := version_of(distribution)) is not None
        # Nightly builds of torch are prereleases.
        and SpecifierSet(specifier).contains(found, prereleases=True)
        for distribution, specifier in wanted.items()
    )


def _version_lookup() -> VersionOf:
    """Return a look-up of installed versions that reads each distribution's metadata once.

    A new one for each selection: a distribution may be installed while the process runs.
    """

    @cache
    def version_of(distribution: str) -> str | None:
        try:
            return version(distribution)
        except PackageNotFoundError:
            return None

    return version_of
