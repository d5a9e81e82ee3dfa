"""A comparator with the outputs that it compares, and the checks of its results."""

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
        outputs: Names of the outputs, in the order in which the comparator expects them.
        name: The comparator as typed by the user, for messages and for the manifest.
        call: The function that compares one sample.
    """

    outputs: tuple[str, ...]
    name: str
    call: Callable[[ComparisonRequest], Any]

    def check_names(self, known: Iterable[str]) -> None:
        """Check that the model has all outputs of the comparator.

        Raises:
            UsageError: An output is unknown.
        """
        names = list(known)
        for name in self.outputs:
            if name not in names:
                close = nearest(name, names)
                raise UsageError(
                    f"unknown output '{name}' for the comparator '{self.name}'; "
                    f"available: {', '.join(names)}",
                    hint=f"did you mean '{close}'?" if close else None,
                )

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Compare the outputs of one sample, and return the result.

        Raises:
            UsageError: The comparator raised, or did not return a valid result.
        """
        with errors_named(UsageError, f"comparator '{self.name}' raised"):
            result = self.call(request)
        if not isinstance(result, ComparisonResult):
            raise UsageError(
                f"comparator '{self.name}' returned the wrong type: expected an "
                f"enginebay.hooks.ComparisonResult, found {type(result).__name__}"
            )
        # A plugin may return anything, which would fail later without its name.
        for aligned in result.aligned:
            self._check_aligned(aligned)
        return result

    def _check_aligned(self, aligned: object) -> None:
        if not isinstance(aligned, Aligned) or aligned.output not in self.outputs:
            raise UsageError(
                f"comparator '{self.name}' returned a wrong item in 'aligned': expected an "
                f"enginebay.hooks.Aligned of {', '.join(self.outputs)}, found {aligned!r:.80}"
            )
        if np.shape(aligned.expected) != np.shape(aligned.found):
            raise UsageError(
                f"comparator '{self.name}' aligned values of '{aligned.output}' with different "
                f"shapes: {np.shape(aligned.expected)} and {np.shape(aligned.found)}"
            )
