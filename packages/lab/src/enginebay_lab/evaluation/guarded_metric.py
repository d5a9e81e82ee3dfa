"""Wraps metrics, so that a metric's exception becomes an error with the metric's name."""

from __future__ import annotations

import math
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay.errors import EnginebayError, InputError, first_line
from enginebay_lab.evaluation.item_reader import copy_value
from enginebay_lab.evaluation.metric_state import pack_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.evaluation.metric_sources import MetricSource


class MetricError(EnginebayError):
    """A metric raised an exception, or did not return a number."""


class GuardedMetric:
    """Wraps a metric, so that its exceptions become errors with the metric's name.

    Each instance measures the outputs of one artifact, or of PyTorch.

    Args:
        source: The metric's :class:`MetricSource`, which builds new instances of the metric.
        data: The data set's name in messages.

    Attributes:
        name: The metric's name.
        against: ``target`` if outputs are compared with targets, ``reference`` if with PyTorch's.
    """

    def __init__(self, source: MetricSource, data: str) -> None:
        self.name = source.name
        self._data = data
        self._build = source.build
        self._metric = source.build()
        self._is_mergeable = not source.unmergeable
        # To find out whether reset() has removed all items.
        self._empty = self._encode_state() if self._is_mergeable else b""
        self.against = source.against

    def update(self, number: int, outputs: object, target: object) -> None:
        """Add an item's outputs and target to the metric.

        Args:
            number: The item's index in the data set's source.
            outputs: The model's only output, or a dict of several outputs by name.
            target: The item's target; or PyTorch's outputs, in the same form as ``outputs``.

        Raises:
            InputError: The target is missing, or does not fit the outputs.
            MetricError: The metric raised.
        """
        if target is None:
            raise InputError(
                f"item {number} of {self._data} has no target, which metric '{self.name}' requires",
                hint="add targets (in an .npz file: the key 'target'), or use the metric 'cosine'",
            )
        item = f"item {number} of {self._data}"
        with self._name_errors(f" on {item}"):
            try:
                # Copies: a metric may write into its arguments, which other metrics get too.
                self._metric.update(copy_value(outputs), copy_value(target))
            except InputError as err:
                message = f"metric '{self.name}' on {item}: {err}"
                raise InputError(message, hint=err.full_hint) from err

    def update_all(
        self, numbers: Sequence[int], outputs: Sequence[Any], targets: Sequence[Any]
    ) -> None:
        """Add several items to the metric; see :meth:`update`."""
        update_many = getattr(self._metric, "update_many", None)
        if update_many and len(numbers) > 1 and _can_stack(outputs) and _can_stack(targets):
            # A chunk that fails is added again item by item, so that the error names its item.
            with suppress(InputError, ValueError, TypeError):
                update_many(np.stack(outputs), np.stack(targets))
                return
        for number, output, target in zip(numbers, outputs, targets, strict=True):
            self.update(number, output, target)

    def value(self) -> float | None:
        """Return the metric's value over all items; None if it is NaN or infinite.

        Raises:
            MetricError: The metric raised, or did not return a number.
        """
        with self._name_errors():
            result = self._metric.compute()
        try:
            value = float(result)
        except OverflowError:  # an integer too large for a float
            return None
        except (TypeError, ValueError, RuntimeError) as err:
            raise MetricError(
                f"metric '{self.name}' returned a {type(result).__name__}, expected one number",
                hint="compute() must return a float, or an array or a tensor with one entry",
            ) from err
        return value if math.isfinite(value) else None

    def drop(self, value: float | None, reference: float | None) -> float | None:
        """Return by how much a value is worse than PyTorch's; None if one of the two is None.

        If the metric's ``higher_is_better`` is None, return the absolute difference.
        """
        if value is None or reference is None:
            return None
        better = getattr(self._metric, "higher_is_better", True)
        if better is None:
            return abs(reference - value)
        return reference - value if better else value - reference

    @property
    def state(self) -> object:
        """A copy of the metric's state for :meth:`merge`.

        If the states of two instances cannot be merged, this is the metric object itself.

        Raises:
            MetricError: The metric raised.
        """
        if not self._is_mergeable:
            return self._metric
        with self._name_errors():
            return deepcopy(self._metric.metric_state)  # reset() may empty the original

    def reset(self) -> None:
        """Remove all items from the metric; do nothing if the metric's states cannot be merged.

        Raises:
            MetricError: The metric raised.
        """
        if self._is_mergeable:
            with self._name_errors():
                self._metric.reset()
                if not self._empty or self._encode_state() != self._empty:
                    # reset() may not have removed all items: the rest would be counted twice.
                    self._metric = self._build()

    def _encode_state(self) -> bytes:
        """Return the metric's state as bytes; empty if the state cannot be encoded."""
        with suppress(TypeError):
            return msgspec.msgpack.encode(pack_state(self.state))
        return b""

    def merge(self, state: object) -> None:
        """Add the items of another instance of the metric to this instance.

        Args:
            state: The :attr:`state` of the other instance.

        Raises:
            MetricError: The metric raised.
        """
        if not self._is_mergeable:
            self._metric = state  # the only instance, which has seen all items so far
            return
        with self._name_errors():
            self._metric.merge_state(state)

    @contextmanager
    def _name_errors(self, where: str = "") -> Iterator[None]:
        try:
            yield
        except (KeyboardInterrupt, InputError):
            raise
        except BaseException as err:  # SystemExit too: a metric must not end the evaluation
            message = f"metric '{self.name}' raised {type(err).__name__}{where}: {first_line(err)}"
            raise MetricError(message) from err


def _can_stack(values: Sequence[object]) -> bool:
    """Return True if all values are arrays or numbers of the same shape and dtype."""
    arrays = [np.asarray(value) for value in values]
    first = arrays[0]
    return first.dtype.kind != "O" and all(
        array.dtype == first.dtype and array.shape == first.shape for array in arrays
    )
