"""A comparator of some outputs, and what can go wrong in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.errors import UsageError, nearest
from enginebay.plugins import errors_named
from enginebay.verdict import Aligned, ComparisonResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from enginebay.verdict import ComparisonRequest


class Comparator(NamedTuple):
    """A comparator, and the outputs that it compares.

    Attributes:
        outputs: Their names, in the order in which it wants them.
        name: What the user typed; for messages and the manifest.
        call: Compares one sample.
    """

    outputs: tuple[str, ...]
    name: str
    call: Callable[[ComparisonRequest], Any]

    def check_names(self, known: Iterable[str]) -> None:
        """Check that there are such outputs.

        Raises:
            UsageError: There is no output of a name.
        """
        names = list(known)
        for name in self.outputs:
            if name not in names:
                close = nearest(name, names)
                raise UsageError(
                    f"'{name}' is to be compared by {self.name}, and there is no such output; "
                    f"outputs: {', '.join(names)}",
                    hint=f"did you mean '{close}'?" if close else None,
                )

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Compare one sample.

        Raises:
            UsageError: It raised, or returned something else than a result.
        """
        with errors_named(UsageError, f"comparator '{self.name}' raised"):
            result = self.call(request)
        if not isinstance(result, ComparisonResult):
            raise UsageError(
                f"comparator '{self.name}' returned {type(result).__name__}: wanted an "
                "enginebay.hooks.ComparisonResult"
            )
        for aligned in result.aligned:
            self._check(aligned)
        return result

    def _check(self, aligned: Any) -> None:
        """What is to be held place by place must be two arrays of one shape."""
        if not isinstance(aligned, Aligned) or aligned.output not in self.outputs:
            raise UsageError(
                f"comparator '{self.name}' aligned {aligned!r:.80}: wanted an "
                f"enginebay.hooks.Aligned of {', '.join(self.outputs)}"
            )
        if np.shape(aligned.expected) != np.shape(aligned.found):
            raise UsageError(
                f"comparator '{self.name}' aligned values of '{aligned.output}' of the shapes "
                f"{np.shape(aligned.expected)} and {np.shape(aligned.found)}: wanted the same"
            )
