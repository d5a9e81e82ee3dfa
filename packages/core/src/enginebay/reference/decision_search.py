"""Search for inputs on which the model takes the decisions that no sample has taken.

Autograd leads from what decides (the scores of a choice, both sides of a comparison) back to the
inputs. What is found becomes a probe input.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.reference.recorder import PROBE_SECONDS
from enginebay.reference.seen_decisions import is_derived
from enginebay.tensors import to_numpy, to_torch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from torch import Tensor

    from enginebay.models import BoundModel
    from enginebay.reference.probes import ProbeGenerator
    from enginebay.reference.recorder import Recorder
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]
    #: The index of a side in :attr:`TakenSides.taken`.
    Side = tuple[int, ...]

#: The budget of all searches: CPU seconds.
_BUDGET_SECONDS = 0.75

#: The number of steps of one search, and the length of the first in standard deviations. A step
#: that leads nowhere is taken again at a third of its length, down to the shortest.
_STEPS = 20
_FIRST_STEP = 0.3
_SHORTEST_STEP = 0.01

#: A model of which one run takes more than this share of the budget is not searched.
_MAX_COST = 0.1

#: A margin of this share of the scores' standard deviation is no matter of rounding.
_SAFE_MARGIN = 0.1

#: The number of sides that a label names.
_MAX_NAMED = 3

#: Operators that decide by the order of floats.
_ASCENDABLE = frozenset(
    (
        *("argmax", "argmin", "max", "min", "topk", "torchvision::nms"),
        *("gt", "ge", "lt", "le", "sign", "heaviside"),
    )
)


class _Goal(NamedTuple):
    """The key of a decision, the wanted sides, and the number of its entries or columns."""

    key: str
    sides: Sequence[Side]
    columns: int


class _Found(NamedTuple):
    """Inputs, and the wanted sides that the model takes on them."""

    inputs: Arrays
    sides: Sequence[Side]


class _Range(NamedTuple):
    """The values that a float input may take, and the standard deviation of its example."""

    low: float
    high: float
    spread: float


def search_decisions(recorder: Recorder, generator: ProbeGenerator) -> None:
    """Record probe inputs that take sides of the model's decisions that no sample has taken.

    Nothing happens if no input is a float, if autograd does not reach the inputs, or if the model
    fails with gradients or is slow.
    """
    from enginebay.state import merge_sides

    examples = recorder.model.examples.items()
    floats = [name for name, array in examples if array.dtype.kind == "f" and array.size]
    if recorder.doubt or not floats or recorder.cost > _MAX_COST:
        return
    ranges = {name: _find_range(recorder, name) for name in floats}
    starts = _choose_starts(recorder, ranges)
    deadline = time.thread_time() + recorder.effort * _BUDGET_SECONDS
    merged = merge_sides(recorder.runs)
    for key, sides in merged.items():
        if key.split()[-2] not in _ASCENDABLE or not sides.used or is_derived(sides, merged):
            continue
        missing, together = sides.missing, True
        while missing and time.thread_time() < deadline:
            goal = _Goal(key, missing if together else missing[:1], len(sides.taken))
            tries = (_ascend(recorder.model, start, ranges, goal, deadline) for start in starts)
            if (found := next(filter(None, tries), None)) is not None:
                numbers = ", ".join(str(side[0]) for side in found.sides[:_MAX_NAMED])
                what = f"choice {numbers}" if sides.kind == "choice" else "the other side"
                label = f"{what} at {sides.place}"
                label += f" ({len(recorder.labels)})" if label in recorder.labels else ""
                recorder.record_probe(generator.make_probe(label, found.inputs))
            left = [side for side in merge_sides(recorder.runs)[key].missing if side in missing]
            if len(left) == len(missing):
                # Sides that cannot be taken together may be taken one by one.
                left, together = left[0 if together else 1 :], False
            missing = left


def _find_range(recorder: Recorder, name: str) -> _Range:
    """Return the domain of an input or, without one, the range of its samples."""
    arrays = [sample.inputs[name].reshape(-1) for sample in recorder.samples]
    values = np.concatenate([array[np.isfinite(array)] for array in arrays]).astype(np.float64)
    low, high = recorder.domain.get(name, (float(values.min()), float(values.max())))
    example = recorder.model.examples[name].astype(np.float64)
    return _Range(low, high, max(float(np.nanstd(example)), (high - low) / 100))


def _choose_starts(recorder: Recorder, floats: Collection[str]) -> list[Arrays]:
    """Return inputs to start from: two samples of the example's sizes, and almost equal rows.

    Almost equal rows are boxes that overlap.
    """
    shapes = recorder.model.example_shapes
    usual = [
        sample.inputs
        for sample in recorder.samples
        if all(sample.inputs[name].shape == shape for name, shape in shapes.items())
    ]
    first = usual[min(1, len(usual) - 1)]
    alike = dict(first)
    for name in floats:
        if (array := first[name]).ndim > 1:
            alike[name] = array[..., :1, :] + (array - array[..., :1, :]) / 16
    return [first, alike, usual[-1]]


def _ascend(
    model: BoundModel, start: Arrays, ranges: Mapping[str, _Range], goal: _Goal, deadline: float
) -> _Found | None:
    """Return inputs on which a decision takes as many of the wanted sides as possible, if any."""
    import torch

    from enginebay.state import Observer

    assert model.signature is not None
    inputs, best, most = start, None, (0, 0.0)
    base, highest, length, safe = start, -math.inf, _FIRST_STEP, 0.0
    uphill: Sequence[Tensor | None] = ()
    for _ in range(_STEPS):
        if length < _SHORTEST_STEP or time.thread_time() > deadline:
            break
        observer = Observer(kept=(goal.key,), limit=PROBE_SECONDS)
        tensors = {name: to_torch(array, model.device) for name, array in inputs.items()}
        leaves = [tensors[name].requires_grad_() for name in ranges]
        try:
            model.signature.run(model.source.module, tensors, observer, gradients=True)
            margins, unit = _measure_margins(*observer.operands[goal.key], goal)
            safe = safe or _SAFE_MARGIN * unit
            margins = margins.clamp(max=safe)
            slopes = torch.autograd.grad(margins.sum(), leaves, allow_unused=True)
        except Exception:  # noqa: BLE001  # an operator without a gradient, or a branch that fails
            break
        taken = observer.observation.decisions[goal.key].taken
        if goal.columns == 1 and taken.ndim > 1:
            taken = np.stack([taken.any(0)])
        sides = [side for side in goal.sides if taken[side]]
        smallest = float(margins.detach().min())
        if sides and (len(sides), smallest) > most:
            best, most = _Found(inputs, sides), (len(sides), smallest)
        if smallest >= safe or not any(slope is not None and slope.any() for slope in slopes):
            break
        if (height := float(margins.detach().sum())) > highest:
            base, uphill, highest, length = inputs, slopes, height, 1.5 * length
        else:
            length /= 3
        inputs = dict(base)
        for (name, (low, high, spread)), slope in zip(ranges.items(), uphill, strict=True):
            if slope is not None:
                moved = base[name] + length * spread * _normalise(to_numpy(slope))
                inputs[name] = np.clip(moved, low, high).astype(base[name].dtype)
    return best


def _normalise(slope: NumpyArray) -> NumpyArray:
    """Return a gradient in which each row has a mean square of 1, unless it is 0."""
    slope = np.nan_to_num(slope.astype(np.float64))
    axes = tuple(range(1, slope.ndim)) or None
    size = np.sqrt(np.square(slope).mean(axes, keepdims=True))
    return slope / np.where(size == 0, 1, size)


def _measure_margins(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], goal: _Goal
) -> tuple[Tensor, float]:
    """Return by how much each wanted side is taken, and the deviation of the compared values.

    Negative numbers are sides that are not taken. Each side has a row of its own among the compared
    values, as far as there are enough.
    """
    import torch

    from enginebay.state import SELECTING, STEPS, read_dim

    if name == "torchvision::nms":
        return _measure_overlap(args[0]), 1.0
    numbers = torch.tensor(goal.sides, device=args[0].device)
    if name in SELECTING:
        dim = read_dim(name, args, kwargs)
        scores = args[0].movedim(dim, -1).reshape(-1, goal.columns)
        largest = args[3] if len(args) > 3 else kwargs.get("largest", not name.endswith("min"))
        rows = (scores if largest else -scores)[torch.arange(len(numbers)) % len(scores)]
        others = rows.scatter(1, numbers, -torch.inf)
        threshold = others.topk(args[1] if name == "topk" else 1, -1).values[:, -1:]
        # A smooth maximum: the true one has kinks, at which an ascent stays.
        unit = _SAFE_MARGIN * float(scores.detach().std(correction=0))
        lower = others.where(others <= threshold, -torch.inf)
        margins = rows.gather(1, numbers)[:, 0] - unit * (lower / unit).logsumexp(-1)
    else:
        first, second = (args[0], 0) if name in STEPS else args
        scores = (first - second).reshape(-1, goal.columns)
        scores = -scores if name in ("lt", "le") else scores
        signs = 2 * numbers[:, 1] - 1
        if goal.columns == 1:
            margins = (scores * signs).amax(0)
        else:
            rows = scores[torch.arange(len(numbers)) % len(scores)]
            margins = rows.gather(1, numbers[:, :1])[:, 0] * signs
    return margins, float(scores.detach().std(correction=0) or scores.detach().abs().mean())


def _measure_overlap(boxes: Tensor) -> Tensor:
    """Return the negative distance of the two closest boxes."""
    import torch

    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    first, second = torch.triu_indices(len(boxes), len(boxes), 1, device=boxes.device)
    return -(centers[first] - centers[second]).square().sum(-1).min()[None]
