"""Collection of recorded samples: inputs with the outputs of a model."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from enginebay.reference.probe_values import is_constant
from enginebay.tensors import Sample, find_extremes, is_all_non_finite, measure_shares
from enginebay.verdict import ITEM, Basis, ComparedSizes, InputRange, VerifiedRange
from enginebay.verification import RecordedReference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from enginebay.data import Item
    from enginebay.models import BoundModel
    from enginebay.params import DynamicShapes
    from enginebay.reference.probes import Domain
    from enginebay.state import TakenSides
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]

#: At most this many items make one batch.
_MAX_STACKED = 5


@dataclass(frozen=True, kw_only=True)
class RecordedModel(RecordedReference):
    """A reference that PyTorch or onnx's evaluator has computed, and can compute again.

    Attributes:
        model: The model.
        runs: For each sample, which sides of its decisions the model took; none for a file.
    """

    model: BoundModel
    runs: tuple[Mapping[str, TakenSides], ...]


@dataclass
class SampleCollection:
    """Collects samples for a verdict, and the attributes of the verdict's :class:`Basis`."""

    domain: Domain
    calibrated: str
    samples: list[Sample] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    #: Label of a probe input that is left out → the reason.
    dropped: dict[str, str] = field(default_factory=dict)
    untried: tuple[str, ...] = ()
    refused: dict[str, int] = field(default_factory=dict)
    targets: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # No probes are drawn for a calibrated engine.
        if self.calibrated:
            reason = f"{self.calibrated} is right only for values like the calibration data"
            self.dropped["the probe inputs"] = reason

    def accept_outputs(self, label: str, outputs: Arrays) -> bool:
        """Return True if any output has finite values; else record the label as dropped."""
        if all(map(is_all_non_finite, outputs.values())):
            self.dropped[label] = "the model returns nothing but NaN and infinity"
            return False
        return True

    def add_item(self, item: Item, outputs: Arrays) -> None:
        """Add an item of a data set, and the index of the item's true class if known."""
        label = f"{ITEM}{item.number}"
        self.add_sample(label, Sample(item.inputs, outputs, "item"))
        if (target := _read_class(item.target)) is not None:
            self.targets[label] = target

    def stack_items(self, dynamic: DynamicShapes) -> tuple[str, Arrays] | None:
        """Return a label and the inputs of the first items as one batch; None if they do not fit.

        A calibrated engine gets no probe inputs, so its items show whether it is right for a batch.
        The first axis of all inputs must be one dynamic dimension.
        """
        import numpy as np

        items = [sample.inputs for sample in self.samples if sample.kind == "item"]
        dims = {dynamic.get(name, {}).get(0) for name in (items[0] if items else ())}
        dim = dims.pop() if len(dims) == 1 else None
        if not self.calibrated or dim is None:
            return None
        shapes = {name: array.shape[1:] for name, array in items[0].items()}
        alike = [
            (number, item)
            for number, item in enumerate(items)
            if {name: array.shape[1:] for name, array in item.items()} == shapes
        ][:_MAX_STACKED]
        rows = len(next(iter(items[0].values())))
        alike = alike[: (dim.max or _MAX_STACKED * rows) // rows]
        stacked = {name: np.concatenate([item[name] for _, item in alike]) for name in shapes}
        if len(alike) < 2 or {len(array) for array in stacked.values()} != {len(alike) * rows}:
            return None
        labels = [label for label in self.labels if label.startswith(ITEM)]
        numbers = [labels[number].removeprefix(ITEM) for number, _ in alike]
        return f"items {', '.join(numbers)} as one batch", stacked

    def add_sample(self, label: str, sample: Sample, *, beyond: bool = False) -> None:
        """Add a sample; ``beyond`` is True if a value lies outside the example's range."""
        self.samples.append(sample)
        self.labels.append(label)
        if beyond:
            self.beyond.append(label)

    def note_untried(self, example: Arrays) -> None:
        """Record the names of inputs whose elements all have the same value in all samples."""
        self.untried = tuple(
            name
            for name, array in example.items()
            if is_constant(array)
            and all((sample.inputs[name] == array.flat[0]).all() for sample in self.samples)
        )

    def build_basis(self) -> Basis:
        """Return the :class:`Basis` of a verdict on the collected samples."""
        return Basis(
            labels=tuple(self.labels),
            beyond=tuple(self.beyond),
            dropped=tuple(f"{label}: {reason}" for label, reason in self.dropped.items()),
            untried=self.untried,
            refused=self.refused,
            domain=self.domain,
            targets=self.targets,
        )


def measure_range(
    model: BoundModel, samples: Iterable[Sample], names: Iterable[str] | None = None
) -> VerifiedRange:
    """Measure the values and sizes of the inputs in the samples, without those with NaN.

    Args:
        model: The model, which names the dynamic dimensions and knows the tables.
        samples: The samples.
        names: Names of the inputs that the engine has; None for all inputs.
    """
    recorded = [sample.inputs for sample in samples if sample.kind != "non_finite"]
    specs = [spec for spec in model.open_inputs if names is None or spec.name in names]
    inputs = {
        spec.name: measure_values(
            [arrays[spec.name] for arrays in recorded], model.below.get(spec.name)
        )
        for spec in specs
    }
    axes: dict[str, list[tuple[str, int]]] = {}
    for spec in specs:
        for axis, dim in enumerate(spec.dims or ()):
            if isinstance(dim, str):
                axes.setdefault(dim, []).append((spec.name, axis))
    return VerifiedRange(
        inputs=inputs,
        sizes={name: _collect_sizes(model, recorded, found) for name, found in axes.items()},
    )


def measure_values(arrays: Sequence[NumpyArray], rows: int | None = None) -> InputRange:
    """Measure the values of an input over all samples.

    Args:
        arrays: The input's array in each sample.
        rows: The number of rows of the table that the input is an index of, if known.
    """
    arrays = [array for array in arrays if array.size]
    extremes = [find_extremes(array) for array in arrays]
    low = min((low for low, _, _ in extremes if low is not None), default=None)
    high = max((high for _, high, _ in extremes if high is not None), default=None)
    finite = all(finite for _, _, finite in extremes)
    filled = None
    # A row of one element is a flag, whose values say the same as its share of ones.
    has_rows = any(array.ndim and array.shape[-1] > 1 for array in arrays)
    is_binary = has_rows and finite and low in (0, 1) and high in (0, 1)
    if is_binary and all(((array == 0) | (array == 1)).all() for array in arrays):
        shares = [measure_shares(array) for array in arrays]
        filled = min(low for low, _ in shares), max(high for _, high in shares)
    tried = None
    if rows and arrays:
        import numpy as np

        tried = len(np.unique(np.concatenate([array.reshape(-1) for array in arrays])))
    return InputRange(low=low, high=high, finite=finite, rows=rows, tried_rows=tried, filled=filled)


def _collect_sizes(
    model: BoundModel, recorded: Sequence[Arrays], axes: Sequence[tuple[str, int]]
) -> ComparedSizes:
    name, axis = axes[0]
    dim = model.dynamic.get(name, {}).get(axis)
    return ComparedSizes(
        sizes=tuple(sorted({arrays[name].shape[axis] for arrays in recorded})),
        limited=dim is not None and dim.max is not None,
        axes=tuple(axes),
    )


def _read_class(target: Any) -> int | None:
    """Return the class index that a target contains; None if it contains no class index."""
    with suppress(AttributeError, ValueError, RuntimeError):  # not an array, or of several numbers
        target = target.item()
    return target if isinstance(target, int) and target >= 0 else None
