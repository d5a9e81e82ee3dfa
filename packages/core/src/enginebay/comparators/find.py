"""The comparators that are meant: built-in names, names of a plugin, or Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.comparators.comparator import Comparator
from enginebay.errors import MissingDependencyError, UsageError, check_text, nearest
from enginebay.hooks import ComparatorRequest
from enginebay.models import named_object
from enginebay.plugins import KNOWN_COMPARATORS, contributed, errors_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FORMS = "top-k[:K], set, file.py:attr, module:attr, or SCHEME[:ARGUMENT] of a plugin"


def _top_k(request: ComparatorRequest) -> Any:
    from enginebay.comparators.top_k import TopK

    return TopK(request.argument)


def _rows(request: ComparatorRequest) -> Any:
    from enginebay.comparators.rows import Rows

    return Rows(request.argument)


_BUILT_IN: dict[str, Callable[[ComparatorRequest], Any]] = {
    "top-k": _top_k,
    "set": _rows,
}


def find_comparators(compare: Mapping[Any, Any]) -> tuple[Comparator, ...]:
    """Find the comparators that are meant.

    Args:
        compare: By output, or by outputs with a comma between them or in a tuple: text as on the
            command line, or a callable.

    Raises:
        UsageError: An output is named twice or not at all, or there is no such comparator.
        MissingDependencyError: One is of a distribution of Enginebay's that is not installed.
        ModelSourceError: The Python file or module of one cannot be imported.
    """
    found = [_comparator(_names(outputs), meant) for outputs, meant in compare.items()]
    seen: set[str] = set()
    for name in (name for one in found for name in one.outputs):
        if name in seen:
            raise UsageError(f"output '{name}' has two comparators", hint="leave one of them out")
        seen.add(name)
    return tuple(found)


def recorded_comparators(
    recorded: Sequence[tuple[Sequence[str], str]], artifact: Path
) -> tuple[Comparator, ...]:
    """Find the comparators that an artifact was verified with.

    Raises:
        UsageError: One is no name of Enginebay or a plugin. Code that an artifact names is not run.
        MissingDependencyError: The plugin of one is not installed.
    """
    known = {*_known(), *KNOWN_COMPARATORS}
    for outputs, name in recorded:
        if name.partition(":")[0] not in known:
            raise UsageError(
                f"'{artifact}' was verified with the comparator '{name}', which is code outside of "
                "it, and is not run because an artifact says so",
                hint=f"if you trust it, type it: --compare {','.join(outputs)}={name}",
            )
    return find_comparators({tuple(outputs): name for outputs, name in recorded})


def _names(outputs: Any) -> tuple[str, ...]:
    names = outputs.split(",") if isinstance(outputs, str) else outputs
    is_list = isinstance(names, Sequence) and len(names) > 0
    if not is_list or not all(isinstance(name, str) and name.strip() for name in names):
        raise UsageError(
            f"compare names the outputs {outputs!r}; wanted one name, or several with a comma "
            "between them"
        )
    return tuple(name.strip() for name in names)


def _comparator(outputs: tuple[str, ...], meant: Any) -> Comparator:
    if isinstance(meant, str):
        check_text(meant)
        name, call = _named(meant)
    else:
        kind = meant if hasattr(meant, "__qualname__") else type(meant)
        name, call = f"{kind.__module__}:{kind.__qualname__}", meant
    if isinstance(call, type):
        call = _built(name, call)
    if not callable(call):
        raise UsageError(
            f"comparator '{name}' is of type {type(call).__qualname__}, and cannot be called",
            hint="name a function that takes an enginebay.hooks.ComparisonRequest",
        )
    return Comparator(outputs, name, call)


def _named(text: str) -> tuple[str, Any]:
    """What a text names, and the name to record."""
    scheme, _, argument = text.partition(":")
    known = _known()
    if build := known.get(scheme):
        request = ComparatorRequest(argument=argument)
        return text, _built(text, lambda: build(request))
    if scheme in KNOWN_COMPARATORS:
        raise MissingDependencyError(
            f"no installed plugin has the comparator '{scheme}'",
            hint=f"pip install {KNOWN_COMPARATORS[scheme]}",
        )
    close = nearest(scheme, {*known, *KNOWN_COMPARATORS})
    if not argument or (close and not set("./") & set(scheme)):  # top_k:5 is no module
        raise UsageError(
            f"there is no comparator '{text}'; there is {_FORMS}",
            hint=f"did you mean '{close}'?" if close else None,
        )
    with named_object(text) as found:
        file, _, attribute = text.rpartition(":")
        return f"{Path(file).absolute()}:{attribute}" if file.endswith(".py") else text, found


def _known() -> dict[str, Callable[[ComparatorRequest], Any]]:
    return contributed("comparators") | _BUILT_IN


def _built(name: str, build: Callable[[], Any]) -> Any:
    with errors_named(UsageError, f"comparator '{name}' cannot be built:"):
        return build()
