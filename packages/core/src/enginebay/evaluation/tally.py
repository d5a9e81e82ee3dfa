"""What is known of one artifact so far: its metrics, its agreement, its worst items."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError
from enginebay.evaluation.meter import Meter, MetricError
from enginebay.evaluation.rows import WorstItem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.data import Item
    from enginebay.evaluation.find import MetricSource
    from enginebay.tensors import NumpyArray

    Arrays = Mapping[str, NumpyArray]

#: As many of the worst items are kept.
WORST = 5


class Tally:
    """What is known of one artifact, or of PyTorch itself, so far.

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
        self.errors: dict[str, str] = {}
        self.count = 0
        self._agreed, self._decided = 0, 0
        self._worst: list[tuple[float, int]] = []

    def add(self, items: Sequence[Item], outputs: Sequence[Arrays]) -> None:
        """Add items with their targets, for the metrics that compare with these.

        Raises:
            InputError: A target is missing, or does not fit; unless errors are kept.
            MetricError: A metric raised; unless errors are kept.
        """
        self._update("target", items, outputs, [item.target for item in items])
        self.count += len(items)

    def compare(
        self, items: Sequence[Item], outputs: Sequence[Arrays], expected: Sequence[Arrays]
    ) -> None:
        """Compare items with PyTorch's outputs, for the metrics that do, and for agreement."""
        self._update("reference", items, outputs, [_form(each) for each in expected])
        agreed, errors = _agreement(outputs, expected)
        self._decided += 0 if agreed is None else len(items)
        self._agreed += int(np.count_nonzero(agreed)) if agreed is not None else 0
        for item, error in zip(items, errors.tolist(), strict=True):
            self._note(math.inf if math.isnan(error) else error, -item.number)

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

    def _note(self, error: float, place: int) -> None:
        if not error:
            return
        if len(self._worst) < WORST:
            heapq.heappush(self._worst, (error, place))
        elif (error, place) > self._worst[0]:
            heapq.heapreplace(self._worst, (error, place))

    def value(self, name: str) -> float | None:
        """A metric's value; None where it has none, and then :attr:`errors` may say why."""
        if name in self.errors:
            return None
        try:
            return self.meters[name].value()
        except MetricError as err:
            self.errors[name] = str(err)
            return None

    @property
    def agreement(self) -> float | None:
        """The share of the items on which the outputs decide as PyTorch's do."""
        return self._agreed / self._decided if self._decided else None

    @property
    def worst(self) -> tuple[WorstItem, ...]:
        """The items that are farthest from PyTorch."""
        found = sorted(self._worst, reverse=True)
        return tuple(
            WorstItem(-place, error if math.isfinite(error) else None) for error, place in found
        )

    @property
    def state(self) -> dict[str, Any] | None:
        """What another tally can go on from; None where a metric does not say."""
        metrics = {name: meter.state for name, meter in self.meters.items()}
        if None in metrics.values():
            return None
        figures = (self.count, self._agreed, self._decided)
        return {
            "metrics": metrics,
            "figures": figures,
            "worst": self._worst,
            "errors": self.errors,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from another tally's state."""
        for name, kept in state["metrics"].items():
            self.meters[name].restore(kept)
        self.count, self._agreed, self._decided = state["figures"]
        self._worst = [(error, place) for error, place in state["worst"]]
        self.errors = dict(state["errors"])


def _form(outputs: Arrays) -> Any:
    """Outputs as a metric gets them: the only one, or all by name."""
    return dict(outputs) if len(outputs) != 1 else next(iter(outputs.values()))


def _agreement(
    outputs: Sequence[Arrays], expected: Sequence[Arrays]
) -> tuple[NumpyArray | None, NumpyArray]:
    """Which items agree, None where no output decides anything; and each item's distance."""
    if len(outputs) > 1 and _alike(outputs) and _alike(expected):
        found = {name: np.stack([each[name] for each in outputs]) for name in outputs[0]}
        wanted = {name: np.stack([each[name] for each in expected]) for name in expected[0]}
        return _compared(found, wanted, len(outputs))
    pairs = [
        _compared(
            {name: array[None] for name, array in found.items()},
            {name: array[None] for name, array in wanted.items()},
            1,
        )
        for found, wanted in zip(outputs, expected, strict=True)
    ]
    errors = np.concatenate([error for _, error in pairs])
    if any(agreed is None for agreed, _ in pairs):
        return None, errors
    return np.concatenate([agreed for agreed, _ in pairs if agreed is not None]), errors


def _alike(outputs: Sequence[Arrays]) -> bool:
    shapes = [array.shape for array in outputs[0].values()]
    return all([array.shape for array in each.values()] == shapes for each in outputs)


def _compared(found: Arrays, wanted: Arrays, count: int) -> tuple[NumpyArray | None, NumpyArray]:
    """The same for outputs one upon the other."""
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
            far = np.where(left == right, 0.0, far).reshape(count, -1)
            near = np.where(np.isfinite(right), right, 0).astype(np.float64).reshape(count, -1)
            noise += np.square(far).sum(-1)
            power += np.square(near).sum(-1)
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
