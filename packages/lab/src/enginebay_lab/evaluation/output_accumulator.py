"""Accumulates metrics, agreement with PyTorch and worst items, over the items of a data set."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay.errors import InputError
from enginebay_lab.evaluation.agreement import compare_items
from enginebay_lab.evaluation.batches import split_items
from enginebay_lab.evaluation.evaluation_rows import WorstItem
from enginebay_lab.evaluation.guarded_metric import GuardedMetric, MetricError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay.authors.sources import Item
    from enginebay_lab.evaluation.agreement import Arrays
    from enginebay_lab.evaluation.metric_sources import MetricSource

#: The largest number of worst items in a row of the result.
MAX_WORST_ITEMS = 5


class AccumulatorState(msgspec.Struct, frozen=True):
    """The state of an :class:`OutputAccumulator`.

    Attributes:
        count: The number of items.
        agreed: The number of items whose decisions (argmax or integer outputs) equal PyTorch's.
        decided: The number of items that have decisions.
        worst: A pair (distance, negated item index) for each of the items whose outputs differ most
            from PyTorch's.
        errors: The errors of metrics that raised, by the metrics' names.
        metrics: The states of the other metrics by name; instead of a state that cannot be merged,
            the metric object itself.
        beyond: The number of items that lie beyond what the artifact was verified with.
    """

    count: int
    agreed: int
    decided: int
    worst: list[tuple[float, int]]
    errors: dict[str, str]
    metrics: dict[str, Any]
    beyond: int = 0


class OutputAccumulator:
    """Accumulates the results of one artifact or of PyTorch: metrics, agreement and worst items.

    Args:
        sources: The objects that build the metrics, one for each metric.
        data: The data set's name in messages.
        record_errors: Record the error of a metric that raises, and continue without this metric;
            if False, raise the error.
        find_beyond: Returns in which ways inputs lie beyond what the artifact was verified with;
            None if this is unknown.

    Attributes:
        count: The number of items.
        beyond: The number of items that lie beyond what the artifact was verified with.
        metrics: The metrics by name.
        errors: The errors of metrics that raised, by the metrics' names.
    """

    def __init__(
        self,
        sources: Sequence[MetricSource],
        data: str,
        *,
        record_errors: bool = False,
        find_beyond: Callable[[Arrays], Sequence[str]] | None = None,
    ) -> None:
        self._record_errors = record_errors
        self._find_beyond = find_beyond
        self.metrics = {source.name: GuardedMetric(source, data) for source in sources}
        self.reset()

    def reset(self) -> None:
        """Remove all results, except in metrics whose states cannot be merged.

        Raises:
            MetricError: A metric raised.
        """
        self.count, self.beyond = 0, 0
        self.errors: dict[str, str] = {}
        self._agreed, self._decided = 0, 0
        # Item indices are negated: of items with equal distances the first is the worst.
        self._worst: list[tuple[float, int]] = []
        for metric in self.metrics.values():
            metric.reset()

    def add(
        self,
        items: Sequence[Item],
        outputs: Sequence[Arrays],
        expected: Sequence[Arrays] | None = None,
    ) -> None:
        """Add the outputs of the artifact or of PyTorch for some items.

        Each row of an item that is a batch counts as an item.

        Args:
            items: The items, with their targets.
            outputs: The outputs by name, for each item.
            expected: PyTorch's outputs by name, for each item; None without a model.

        Raises:
            InputError: A target is missing or does not fit, and ``record_errors`` is False.
            MetricError: A metric raised, and ``record_errors`` is False.
        """
        calls = items
        items, outputs, expected = split_items(items, outputs, expected)
        self.count += len(items)
        if self._find_beyond is not None:
            beyond = sum(bool(self._find_beyond(call.inputs)) for call in calls)
            self.beyond += beyond * (len(items) // len(calls))
        self._update_metrics("target", items, outputs, [item.target for item in items])
        if expected is None:
            return
        references = [_unwrap_single(arrays) for arrays in expected]
        self._update_metrics("reference", items, outputs, references)
        agreed, distances = compare_items(outputs, expected)
        self._decided += len(agreed)
        self._agreed += int(np.count_nonzero(agreed))
        # NaN has no order among the distances.
        distant = [
            (math.inf if math.isnan(distance) else distance, -item.number)
            for item, distance in zip(items, distances.tolist(), strict=True)
            if distance  # equal outputs are not among the worst
        ]
        self._worst = heapq.nlargest(MAX_WORST_ITEMS, [*self._worst, *distant])

    def _update_metrics(
        self,
        against: str,
        items: Sequence[Item],
        outputs: Sequence[Arrays],
        targets: Sequence[object],
    ) -> None:
        numbers = [item.number for item in items]
        for name, metric in self.metrics.items():
            if metric.against != against or name in self.errors:
                continue
            try:
                metric.update_all(numbers, [_unwrap_single(arrays) for arrays in outputs], targets)
            except (InputError, MetricError) as err:
                if not self._record_errors:
                    raise
                self.errors[name] = str(err)

    def metric_value(self, name: str) -> float | None:
        """Return a metric's value; None if it is not finite, or if the metric is in ``errors``."""
        if name in self.errors:
            return None
        try:
            return self.metrics[name].value()
        except (InputError, MetricError) as err:
            self.errors[name] = str(err)
            return None

    @property
    def agreement(self) -> float | None:
        """The fraction of items whose argmax or integer outputs equal PyTorch's.

        None if no item has integer outputs, or scores for at least two classes.
        """
        return self._agreed / self._decided if self._decided else None

    @property
    def worst_items(self) -> tuple[WorstItem, ...]:
        """The items whose outputs differ most from PyTorch's, the largest difference first."""
        return tuple(
            WorstItem(-number, distance if math.isfinite(distance) else None)
            for distance, number in self._worst
        )

    @property
    def state(self) -> AccumulatorState:
        """The accumulated results, for :meth:`merge`.

        Raises:
            MetricError: A metric raised.
        """
        metrics = {n: metric.state for n, metric in self.metrics.items() if n not in self.errors}
        return AccumulatorState(
            self.count,
            self._agreed,
            self._decided,
            self._worst,
            dict(self.errors),
            metrics,
            self.beyond,
        )

    def merge(self, other: AccumulatorState) -> None:
        """Append the results of later items from another accumulator.

        Raises:
            MetricError: A metric raised.
        """
        for name, state in other.metrics.items():
            if name not in self.errors:
                self.metrics[name].merge(state)
        self.errors = {**other.errors, **self.errors}
        self.count += other.count
        self.beyond += other.beyond
        self._agreed += other.agreed
        self._decided += other.decided
        self._worst = heapq.nlargest(MAX_WORST_ITEMS, [*self._worst, *other.worst])


def _unwrap_single(outputs: Arrays) -> NumpyArray | dict[str, NumpyArray]:
    """Return the array of a single output, or a dict of several outputs by name."""
    return dict(outputs) if len(outputs) != 1 else next(iter(outputs.values()))
