"""One metric while it is computed, with its faults named."""

from __future__ import annotations

import math
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay.errors import EnginebayError, InputError, first_line
from enginebay_lab.evaluation.chunks import copied
from enginebay_lab.evaluation.packing import pack_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.evaluation.find import MetricSource


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
        self._build = source.build
        self._metric = source.build()
        self._is_mergeable = not source.unmergeable
        self._empty = self._encoded_state() if self._is_mergeable else b""
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
        place = f"item {number} of {self._data}"
        with self._named_errors(f" on {place}"):
            try:
                self._metric.update(copied(outputs), copied(wanted))
            except InputError as err:
                message = f"metric '{self.name}' on {place}: {err}"
                raise InputError(message, hint=err.hint) from err

    def update_all(
        self, numbers: Sequence[int], outputs: Sequence[Any], wanted: Sequence[Any]
    ) -> None:
        """Add items, as :meth:`update` does."""
        update = getattr(self._metric, "update_many", None)
        if update and len(numbers) > 1 and _are_alike(outputs) and _are_alike(wanted):
            with suppress(InputError, ValueError, TypeError):  # one by one, to name the item
                update(np.stack(outputs), np.stack(wanted))
                return
        for number, output, other in zip(numbers, outputs, wanted, strict=True):
            self.update(number, output, other)

    def value(self) -> float | None:
        """The metric's value over all items; None where it is NaN or infinite.

        Raises:
            MetricError: The metric raised, or returned no number.
        """
        with self._named_errors():
            found = self._metric.compute()
        try:
            value = float(found)
        except OverflowError:  # an integer that no float holds
            return None
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
    def state(self) -> Any:
        """What :meth:`merge` takes: the metric's own state, or the metric that cannot be merged.

        Raises:
            MetricError: The metric raised.
        """
        if not self._is_mergeable:
            return self._metric
        with self._named_errors():
            return deepcopy(self._metric.metric_state)  # reset() may empty it

    def reset(self) -> None:
        """Forget all items; a metric that cannot be merged goes on.

        Raises:
            MetricError: The metric raised.
        """
        if self._is_mergeable:
            with self._named_errors():
                self._metric.reset()
                if not self._empty or self._encoded_state() != self._empty:
                    # It may not have forgotten its items, which would count twice.
                    self._metric = self._build()

    def _encoded_state(self) -> bytes:
        """The state as bytes, which are equal for equal states; empty where it has none."""
        with suppress(TypeError):
            return msgspec.msgpack.encode(pack_state(self.state))
        return b""

    def merge(self, state: Any) -> None:
        """Add the items of another meter behind its own.

        Raises:
            MetricError: The metric raised.
        """
        if not self._is_mergeable:
            self._metric = state  # it has seen all items so far
            return
        with self._named_errors():
            self._metric.merge_state(state)

    @contextmanager
    def _named_errors(self, where: str = "") -> Iterator[None]:
        """Name the metric in the errors of its code; one that exits has computed nothing."""
        try:
            yield
        except (KeyboardInterrupt, InputError):
            raise
        except BaseException as err:
            message = f"metric '{self.name}' raised {type(err).__name__}{where}: {first_line(err)}"
            raise MetricError(message) from err


def _are_alike(values: Sequence[Any]) -> bool:
    """True if these are arrays, or numbers, that lie one upon the other as they are."""
    arrays = [np.asarray(value) for value in values]
    first = arrays[0]
    return first.dtype.kind != "O" and all(
        each.dtype == first.dtype and each.shape == first.shape for each in arrays
    )
