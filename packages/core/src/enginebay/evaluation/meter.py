"""One metric while it is computed, with its faults named."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import EnginebayError, InputError, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.evaluation.find import MetricSource


class MetricError(EnginebayError):
    """A metric's own code raised, or returned no number."""


class Meter:
    """One metric of one artifact, or of PyTorch.

    Args:
        source: The metric.
        data: The data set's name in messages.

    Attributes:
        name: The metric's name.
        against: ``target``, or ``reference`` for a metric that compares with PyTorch's outputs.
    """

    def __init__(self, source: MetricSource, data: str) -> None:
        self.name = source.name
        self._data = data
        self._metric = source.build()
        self.against = source.against

    def update(self, number: int, outputs: Any, wanted: Any) -> None:
        """Add an item.

        Args:
            number: The item's number in the source.
            outputs: The only output, or a dict of them by name.
            wanted: The target, or PyTorch's outputs in the form of ``outputs``.

        Raises:
            InputError: There is no target, or it does not fit.
            MetricError: The metric raised.
        """
        if wanted is None:
            raise InputError(
                f"item {number} of {self._data} has no target, and metric '{self.name}' needs one",
                hint="in an .npz file the key 'target' holds the targets; 'cosine' needs none",
            )
        try:
            self._metric.update(outputs, wanted)
        except KeyboardInterrupt:
            raise
        except InputError as err:
            message = f"metric '{self.name}' on item {number} of {self._data}: {err}"
            raise InputError(message, hint=err.hint) from err
        except BaseException as err:  # a metric that exits has computed nothing
            raise MetricError(
                f"metric '{self.name}' raised {type(err).__name__} on item {number} of "
                f"{self._data}: {first_line(err)}"
            ) from err

    def update_all(
        self, numbers: Sequence[int], outputs: Sequence[Any], wanted: Sequence[Any]
    ) -> None:
        """Add items, as :meth:`update` does."""
        if getattr(self._metric, "takes_many", False) and len(numbers) > 1:
            with suppress(InputError, ValueError, TypeError):  # one by one, to name the item
                self._metric.update(np.stack(outputs), np.stack(wanted))
                return
        for number, output, other in zip(numbers, outputs, wanted, strict=True):
            self.update(number, output, other)

    def value(self) -> float | None:
        """The metric's value over all items; None where it is NaN or infinite.

        Raises:
            MetricError: The metric raised, or returned no number.
        """
        try:
            found = self._metric.compute()
        except KeyboardInterrupt:
            raise
        except BaseException as err:
            message = f"metric '{self.name}' raised {type(err).__name__}: {first_line(err)}"
            raise MetricError(message) from err
        try:
            value = float(found)
        except (TypeError, ValueError, RuntimeError) as err:
            kind = type(found).__name__
            raise MetricError(
                f"metric '{self.name}' returned a {kind}, wanted one number",
                hint="compute() returns a float, or an array or a tensor with one entry",
            ) from err
        return value if math.isfinite(value) else None

    def drop(self, value: float | None, reference: float | None) -> float | None:
        """How much worse a value is than the reference; a distance if neither way is better."""
        if value is None or reference is None:
            return None
        better = getattr(self._metric, "higher_is_better", True)
        if better is None:
            return abs(reference - value)
        return reference - value if better else value - reference

    @property
    def state(self) -> dict[str, Any] | None:
        """What a new metric can go on from; None where this one does not say."""
        if not hasattr(self._metric, "merge_state"):
            return None
        state: dict[str, Any] | None = getattr(self._metric, "metric_state", None)
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from another metric's state."""
        self._metric.merge_state(state)
