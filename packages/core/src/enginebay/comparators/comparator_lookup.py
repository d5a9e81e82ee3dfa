"""Lookup of comparators: by name (built-in, or of a plugin) or as Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.comparators.comparator import Comparator
from enginebay.errors import MissingDependencyError, UsageError, check_text, nearest
from enginebay.hooks import ComparatorRequest
from enginebay.installation import install_command
from enginebay.named_objects import named_object
from enginebay.plugins import contributed, errors_named, known_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.comparators.rows import Rows
    from enginebay.comparators.top_k import TopK

_FORMS = "top-k[:K], set, file.py:attr, module:attr, or SCHEME[:ARGUMENT] of a plugin"


def _build_top_k(request: ComparatorRequest) -> TopK:
    from enginebay.comparators.top_k import TopK

    return TopK(request.argument)


def _build_rows(request: ComparatorRequest) -> Rows:
    from enginebay.comparators.rows import Rows

    return Rows(request.argument)


_BUILT_IN: dict[str, Callable[[ComparatorRequest], object]] = {
    "top-k": _build_top_k,
    "set": _build_rows,
}


def find_comparators(compare: Mapping[Any, object]) -> tuple[Comparator, ...]:
    """Return the comparators that a user specified.

    Args:
        compare: Output → comparator. Several outputs are a tuple, or a text with commas. A
            comparator is a text as on the command line, or a callable.

    Raises:
        UsageError: An output has two comparators, a comparator has no output, or a comparator is
            unknown.
        MissingDependencyError: The distribution that provides a comparator is not installed.
        ModelSourceError: A comparator's Python file or module cannot be imported.
    """
    comparators = [
        _build_comparator(_split_outputs(outputs), specified)
        for outputs, specified in compare.items()
    ]
    seen: set[str] = set()
    for name in (name for comparator in comparators for name in comparator.outputs):
        if name in seen:
            raise UsageError(f"output '{name}' has two comparators", hint="leave one of them out")
        seen.add(name)
    return tuple(comparators)


def recorded_comparators(
    recorded: Sequence[tuple[Sequence[str], str]], artifact: Path
) -> tuple[Comparator, ...]:
    """Return the comparators with which an artifact was verified.

    Raises:
        UsageError: A comparator is neither built-in nor a plugin's, but Python code: an artifact
            must not make Enginebay run such code.
        MissingDependencyError: A comparator's plugin is not installed.
    """
    known = {*_known_comparators(), *known_packages("comparators")}
    for outputs, name in recorded:
        if name.partition(":")[0] not in known:
            raise UsageError(
                f"'{artifact}' was verified with the comparator '{name}', which is Python code: an "
                "artifact may not run code",
                hint=f"if you trust the code, add --compare {','.join(outputs)}={name}",
            )
    return find_comparators({tuple(outputs): name for outputs, name in recorded})


def _split_outputs(outputs: Any) -> tuple[str, ...]:
    names = outputs.split(",") if isinstance(outputs, str) else outputs
    is_list = isinstance(names, Sequence) and len(names) > 0
    if not is_list or not all(isinstance(name, str) and name.strip() for name in names):
        raise UsageError(
            f"invalid outputs {outputs!r} in 'compare': expected one name, or several separated by "
            "commas"
        )
    return tuple(name.strip() for name in names)


def _build_comparator(outputs: tuple[str, ...], specified: object) -> Comparator:
    if isinstance(specified, str):
        check_text(specified)
        name, call = _resolve_text(specified)
    else:
        kind = specified if hasattr(specified, "__qualname__") else type(specified)
        name, call = f"{kind.__module__}:{kind.__qualname__}", specified
    # A class is called without arguments, and its instance compares.
    if isinstance(call, type):
        call = _call_builder(name, call)
    if not callable(call):
        raise UsageError(
            f"comparator '{name}' is of type {type(call).__qualname__}, which cannot be called",
            hint="name a function that takes an enginebay.hooks.ComparisonRequest",
        )
    return Comparator(outputs, name, call)


def _resolve_text(text: str) -> tuple[str, object]:
    """Return the comparator that a text specifies: its name in the manifest, and the object."""
    scheme, _, argument = text.partition(":")
    known = _known_comparators()
    if build := known.get(scheme):
        request = ComparatorRequest(argument=argument)
        return text, _call_builder(text, lambda: build(request))
    packages = known_packages("comparators")
    if scheme in packages:
        raise MissingDependencyError(
            f"no installed plugin has the comparator '{scheme}'",
            hint=install_command(packages[scheme]),
        )
    close = nearest(scheme, {*known, *packages})
    # top_k:5 is a misspelt name, not a module.
    if not argument or (close and not set("./") & set(scheme)):
        raise UsageError(
            f"unknown comparator '{text}'; available: {_FORMS}",
            hint=f"did you mean '{close}'?" if close else None,
        )
    with named_object(text) as specified:
        file, _, attribute = text.rpartition(":")
        is_file = file.endswith(".py")
        # The manifest is read from other folders too.
        return f"{Path(file).absolute()}:{attribute}" if is_file else text, specified


def _known_comparators() -> dict[str, Callable[[ComparatorRequest], object]]:
    return contributed("comparators") | _BUILT_IN


def _call_builder(name: str, build: Callable[[], object]) -> object:
    with errors_named(UsageError, f"comparator '{name}' cannot be built:"):
        return build()
