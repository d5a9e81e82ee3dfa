"""What is known of one artifact so far: its metrics, its agreement, its worst items."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay.errors import InputError
from enginebay_lab.evaluation.chunks import stacked
from enginebay_lab.evaluation.evaluation_rows import WorstItem
from enginebay_lab.evaluation.meter import Meter, MetricError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors import Item, NumpyArray
    from enginebay_lab.evaluation.find import MetricSource

    Arrays = Mapping[str, NumpyArray]

#: As many of the worst items are kept.
WORST = 5


class TallyState(msgspec.Struct, frozen=True):
    """What a tally knows, as plain data.

    Attributes:
        count: How many items.
        agreed: On how many of them the outputs decide as PyTorch's do.
        decided: How many of them decide anything.
        worst: The distance of the worst items from PyTorch, and their numbers, negated.
        errors: Why a metric has no value, by its name.
        metrics: The state of each other metric, or the metric itself if it cannot be merged.
    """

    count: int
    agreed: int
    decided: int
    worst: list[tuple[float, int]]
    errors: dict[str, str]
    metrics: dict[str, Any]


class Tally:
    """What is known of one artifact, or of PyTorch itself, on some items.

    Args:
        sources: The metrics.
        data: The data set's name in messages.
        keep_errors: A metric that raises loses its value, and nothing else.

    Attributes:
        count: How many items.
        meters: The metrics by name.
        errors: Why a metric has no value, by its name.
    """

    def __init__(
        self, sources: Sequence[MetricSource], data: str, *, keep_errors: bool = False
    ) -> None:
        self._keep_errors = keep_errors
        self.meters = {source.name: Meter(source, data) for source in sources}
        self.reset()

    def reset(self) -> None:
        """Forget all items, but for those of metrics that cannot be merged.

        Raises:
            MetricError: A metric raised.
        """
        self.count = 0
        self.errors: dict[str, str] = {}
        self._agreed, self._decided = 0, 0
        self._worst: list[tuple[float, int]] = []
        for meter in self.meters.values():
            meter.reset()

    def add(
        self,
        items: Sequence[Item],
        outputs: Sequence[Arrays],
        expected: Sequence[Arrays] | None = None,
    ) -> None:
        """Add items.

        Args:
            items: The items, with their targets.
            outputs: The outputs for each.
            expected: PyTorch's outputs for each, for agreement and the metrics that compare with
                them; None without a model.

        Raises:
            InputError: A target is missing, or does not fit; unless errors are kept.
            MetricError: A metric raised; unless errors are kept.
        """
        self.count += len(items)
        self._update("target", items, outputs, [item.target for item in items])
        if expected is None:
            return
        self._update("reference", items, outputs, [_form(each) for each in expected])
        agreed, errors = _agreement(outputs, expected)
        self._decided += len(agreed)
        self._agreed += int(np.count_nonzero(agreed))
        far = [
            (math.inf if math.isnan(error) else error, -item.number)
            for item, error in zip(items, errors.tolist(), strict=True)
            if error
        ]
        self._worst = heapq.nlargest(WORST, [*self._worst, *far])

    def _update(
        self, against: str, items: Sequence[Item], outputs: Sequence[Arrays], wanted: Sequence[Any]
    ) -> None:
        for name, meter in self.meters.items():
            if meter.against != against or name in self.errors:
                continue
            try:
                meter.update_all(
                    [item.number for item in items], [_form(each) for each in outputs], wanted
                )
            except (InputError, MetricError) as err:
                if not self._keep_errors:
                    raise
                self.errors[name] = str(err)

    def value(self, name: str) -> float | None:
        """A metric's value; None where it has none, and then :attr:`errors` may say why."""
        if name in self.errors:
            return None
        try:
            return self.meters[name].value()
        except (InputError, MetricError) as err:
            self.errors[name] = str(err)
            return None

    @property
    def agreement(self) -> float | None:
        """The share of the items on which the outputs decide as PyTorch's do."""
        return self._agreed / self._decided if self._decided else None

    @property
    def worst(self) -> tuple[WorstItem, ...]:
        """The items that are farthest from PyTorch."""
        return tuple(
            WorstItem(-place, error if math.isfinite(error) else None)
            for error, place in self._worst
        )

    @property
    def state(self) -> TallyState:
        """What :meth:`merge` takes.

        Raises:
            MetricError: A metric raised.
        """
        kept = {n: meter.state for n, meter in self.meters.items() if n not in self.errors}
        return TallyState(
            self.count, self._agreed, self._decided, self._worst, dict(self.errors), kept
        )

    def merge(self, other: TallyState) -> None:
        """Add the items of another tally, which come behind its own.

        Raises:
            MetricError: A metric raised.
        """
        for name, state in other.metrics.items():
            if name not in self.errors:
                self.meters[name].merge(state)
        self.errors = {**other.errors, **self.errors}
        self.count += other.count
        self._agreed += other.agreed
        self._decided += other.decided
        self._worst = heapq.nlargest(WORST, [*self._worst, *other.worst])


def _form(outputs: Arrays) -> Any:
    """Outputs as a metric gets them: the only one, or all by name."""
    return dict(outputs) if len(outputs) != 1 else next(iter(outputs.values()))


def _agreement(
    outputs: Sequence[Arrays], expected: Sequence[Arrays]
) -> tuple[NumpyArray, NumpyArray]:
    """Which items agree, of those that decide anything; and each item's distance."""
    if len(outputs) > 1 and not (_are_alike(outputs) and _are_alike(expected)):
        pairs = [_agreement([one], [two]) for one, two in zip(outputs, expected, strict=True)]
        agreed, errors = zip(*pairs, strict=True)
        return np.concatenate(agreed), np.concatenate(errors)
    decided, distance = _compared(stacked(outputs), stacked(expected), len(outputs))
    return np.zeros(0, bool) if decided is None else decided, distance


def _are_alike(outputs: Sequence[Arrays]) -> bool:
    forms = [(array.shape, array.dtype) for array in outputs[0].values()]
    return all([(array.shape, array.dtype) for array in each.values()] == forms for each in outputs)


def _compared(found: Arrays, wanted: Arrays, count: int) -> tuple[NumpyArray | None, NumpyArray]:
    """Which items agree, None where no output decides anything; and each item's distance."""
    agreed: NumpyArray | None = None
    noise, power = np.zeros(count), np.zeros(count)
    for name, right in wanted.items():
        left = found.get(name)
        if left is None or left.shape != right.shape:
            return np.zeros(count, bool), np.full(count, np.inf)
        decided = _decided(left, right)
        if decided is not None:
            agreed = decided if agreed is None else agreed & decided
        # Where both have the same infinity there is no distance.
        with np.errstate(invalid="ignore", over="ignore"):
            far = left.astype(np.float64) - right.astype(np.float64)
            far = np.where(left == right, 0.0, far)
            near = np.where(np.isfinite(right), right, 0).astype(np.float64)
            noise += _squares(far)
            power += _squares(near)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(noise > 0, np.sqrt(noise / power), 0.0)
    return agreed, np.where(np.isnan(noise), np.inf, errors)


def _decided(left: NumpyArray, right: NumpyArray) -> NumpyArray | None:
    """Which items decide the same; None for an output that decides nothing."""
    count = len(right)
    if right.dtype.kind in "biu":
        same = left == right
    elif right.ndim > 1 and right.shape[-1] > 1 and right.dtype.kind in "fV":
        same = (left.argmax(-1) == right.argmax(-1)) & ~np.isnan(left).any(-1)
    else:
        return None
    whole: NumpyArray = same.reshape(count, -1).all(-1)
    return whole


def _squares(values: NumpyArray) -> NumpyArray:
    """Each item's sum of squares, which is the same whatever items lie beside it."""
    # In C order: NumPy adds the entries of another layout in another order.
    rows = np.ascontiguousarray(values).reshape(len(values), -1)
    total: NumpyArray = np.square(rows).sum(-1)
    return total
