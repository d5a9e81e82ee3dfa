"""Which rewriters apply to a target, and which of several for one name is taken."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay.errors import RewriterError

if TYPE_CHECKING:
    from enginebay.rewriting.declaration import IRKind, Rewriter

#: What the built-in rewriters of core give as their distribution.
CORE = "enginebay"

_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a model is exported for.

    Attributes:
        backend: The backend's name.
        ir: The IR's kind, such as ``"onnx"``.
        opset: The ONNX opset asked for; None where the exporter chooses.
        exporter: The exporter, such as ``"torchscript"``; None where it is not known.
        config: The deployment config; empty where there is none.
        options: Every other keyword given to :func:`~enginebay.rewriting.rewrite`.
    """

    backend: str
    ir: IRKind = "onnx"
    opset: int | None = None
    exporter: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def applicable(rewriters: Iterable[Rewriter], target: Target) -> list[Rewriter]:
    """The rewriters whose conditions all hold, in their order."""
    version = _versions()
    return [
        rewriter
        for rewriter in rewriters
        if _static_conditions_hold(rewriter, target.backend, target.ir, version)
        and (rewriter.check is None or rewriter.check(target))
    ]


def most_specific(candidates: Mapping[_K, list[Rewriter]]) -> dict[_K, Rewriter]:
    """Of the candidates for each key the one with the strongest conditions.

    Raises:
        RewriterError: Two of them are equally specific.
    """
    return {key: _winner(rewriters) for key, rewriters in candidates.items()}


def list_rewriters(
    rewriters: Iterable[Iterable[Rewriter]], *, backend: str, ir: IRKind = "onnx"
) -> list[Rewriter]:
    """The rewriters that would apply to a backend, the most specific first for each name.

    A rewriter with a check of its own is listed, since only an export can answer the check, and
    so is the one that applies where the check says no.

    Args:
        rewriters: The sets to choose from.
        backend: The backend's name.
        ir: The IR's kind.
    """
    version = _versions()
    by_name: dict[tuple[str, str], list[Rewriter]] = {}
    for rewriter in (each for group in rewriters for each in group):
        if _static_conditions_hold(rewriter, backend, ir, version):
            by_name.setdefault((rewriter.kind, rewriter.name), []).append(rewriter)
    return [rewriter for key in sorted(by_name) for rewriter in _until_certain(by_name[key])]


def _until_certain(rewriters: list[Rewriter]) -> Iterable[Rewriter]:
    for rewriter in sorted(rewriters, key=_specificity, reverse=True):
        yield rewriter
        if rewriter.check is None:
            return


def _specificity(rewriter: Rewriter) -> tuple[bool, ...]:
    """Larger is more specific. What core ships gives way to all others, and a tie to the caller."""
    return (
        rewriter.distribution != CORE,
        rewriter.backend is not None,
        rewriter.ir is not None,
        bool(rewriter.versions),
        rewriter.check is not None,
        rewriter.distribution is None,
    )


def _winner(rewriters: list[Rewriter]) -> Rewriter:
    if len(rewriters) == 1:
        return rewriters[0]
    highest = max(map(_specificity, rewriters))
    best, *tied = (each for each in rewriters if _specificity(each) == highest)
    if tied:
        raise _tie(best, tied[0])
    return best


def _tie(first: Rewriter, second: Rewriter) -> RewriterError:
    def describe(rewriter: Rewriter) -> str:
        source = f" of {rewriter.distribution}" if rewriter.distribution else ""
        return f"{rewriter.origin}{source} ({rewriter.condition})"

    return RewriterError(
        f'two equally specific {first.kind} rewriters are for "{first.name}": '
        f"{describe(first)} and {describe(second)}",
        hint="give one of them a further condition: backend=, ir=, versions= or check=",
    )


def _static_conditions_hold(
    rewriter: Rewriter, backend: str, ir: IRKind, version: Callable[[str], str | None]
) -> bool:
    return (
        (rewriter.backend is None or rewriter.backend == backend)
        and (rewriter.ir is None or rewriter.ir == ir)
        and (not rewriter.versions or _versions_hold(rewriter.versions, version))
    )


def _versions_hold(wanted: Mapping[str, str], version: Callable[[str], str | None]) -> bool:
    from packaging.specifiers import SpecifierSet

    return all(
        (found := version(distribution)) is not None
        and SpecifierSet(specifier).contains(found, prereleases=True)
        for distribution, specifier in wanted.items()
    )


def _versions() -> Callable[[str], str | None]:
    """A look-up of installed versions that reads each distribution's metadata once."""
    from functools import cache
    from importlib.metadata import PackageNotFoundError, version

    @cache
    def installed(distribution: str) -> str | None:
        try:
            return version(distribution)
        except PackageNotFoundError:
            return None

    return installed
