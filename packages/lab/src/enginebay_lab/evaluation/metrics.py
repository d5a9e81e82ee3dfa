"""The built-in metrics, which require only NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import Hint, InputError, argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors.arrays import NumpyArray


class _MeanMetric:
    """The base class of metrics whose value is a mean: their state is a sum and a count."""

    # Optional attributes of every metric: a metric without them has these values.
    higher_is_better = True
    against = "target"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Remove all items from the mean."""
        self._sum, self._count = 0.0, 0

    def compute(self) -> float:
        """Return the mean; NaN before the first item."""
        return self._sum / self._count if self._count else float("nan")

    @property
    def metric_state(self) -> dict[str, float]:
        """The state for :meth:`merge_state`: the sum and the count."""
        return {"sum": self._sum, "count": self._count}

    def merge_state(self, state: Mapping[str, float]) -> None:
        """Add the items of the instance whose :attr:`metric_state` is ``state``."""
        self._add_sum(float(state["sum"]), int(state["count"]))

    def _add_sum(self, total: float, count: int) -> None:
        self._sum += total
        self._count += count


class TopK(_MeanMetric):
    """The fraction of targets that are among the ``k`` classes with the largest scores.

    Outputs are scores of shape ``[..., classes]``; targets are class indices of shape ``[...]``.
    Scores that contain NaN count as wrong.

    Args:
        k: The number of classes with the largest scores; 1 for the accuracy.

    Example:
        >>> top = TopK(1)
        >>> top.update(np.float32([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
        >>> top.compute()
        0.5
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self._k = k

    def update(self, outputs: object, target: object) -> None:
        """Add the outputs and the target of an item to the mean.

        Raises:
            InputError: The target does not fit the outputs.
        """
        scores = _single_output(outputs)
        labels = np.asarray(target)
        if not scores.ndim:
            raise InputError("the output is a scalar, expected scores of shape [..., classes]")
        if labels.dtype.kind not in "iu":
            raise InputError(f"the target has dtype {labels.dtype}, expected integer class indices")
        rows = scores.reshape(-1, scores.shape[-1])
        if labels.size != len(rows):
            raise InputError(
                f"the target has shape {labels.shape}, expected {scores.shape[:-1]} for an output "
                f"of shape {scores.shape}"
            )
        labels = labels.reshape(-1, 1)
        if labels.size and (labels.min() < 0 or labels.max() >= scores.shape[-1]):
            raise InputError(
                f"the target {labels.min() if labels.min() < 0 else labels.max()} is not a class "
                f"index: the output has {scores.shape[-1]} classes"
            )
        if self._k == 1:
            hits = rows.argmax(-1) == labels[:, 0]
        else:
            # Stable, so that the first of several equal scores counts, as with argmax.
            largest = np.argsort(-rows, axis=-1, kind="stable")[:, : self._k]
            hits = (largest == labels).any(-1)
        if rows.dtype.kind in "fV":  # V: bfloat16, which ml_dtypes adds to NumPy
            hits &= ~np.isnan(rows).any(-1)
        self._add_sum(float(np.count_nonzero(hits)), len(rows))

    def update_many(self, outputs: NumpyArray, targets: NumpyArray) -> None:
        """Add several items, stacked along a new first axis, to the mean."""
        self.update(outputs, targets)


class MeanAbsoluteError(_MeanMetric):
    """The mean of ``|output - target|`` over all entries of all items.

    The shapes of outputs and targets may differ only in axes of size 1.
    """

    higher_is_better = False

    def update(self, outputs: object, target: object) -> None:
        """Add the outputs and the target of an item to the mean.

        Raises:
            InputError: The target does not fit the outputs.
        """
        self.update_many(_single_output(outputs)[None], np.asarray(target)[None])

    def update_many(self, outputs: NumpyArray, targets: NumpyArray) -> None:
        """Add several items, stacked along a new first axis, to the mean.

        Raises:
            InputError: The targets do not fit the outputs.
        """
        output, target = outputs[0], targets[0]
        if target.dtype.kind not in "biuf":
            raise InputError(f"the target has dtype {target.dtype}, expected a numeric dtype")
        if output.size != target.size or _nontrivial_shape(output) != _nontrivial_shape(target):
            raise InputError(
                f"the target has shape {target.shape}, expected the output's shape {output.shape}"
            )
        error = np.abs(outputs.astype(np.float64) - targets.reshape(outputs.shape))
        # One sum for each item, so that the rounding does not depend on the size of the chunk.
        for total in np.ascontiguousarray(error).reshape(len(error), -1).sum(-1).tolist():
            self._add_sum(total, output.size)


class Cosine(_MeanMetric):
    """The mean cosine similarity of an artifact's outputs and PyTorch's; 1 for equal outputs.

    All outputs of an item are flattened to one vector. Targets are not used.
    """

    against = "reference"

    def update(self, outputs: object, reference: object) -> None:
        """Add the artifact's and PyTorch's outputs for an item to the mean."""
        vector, expected = _flatten_outputs(outputs), _flatten_outputs(reference)
        length = float(np.linalg.norm(vector) * np.linalg.norm(expected))
        if length:
            self._add_sum(float(vector @ expected) / length, 1)
        else:  # a zero vector has no direction; two zero vectors count as equal
            self._add_sum(float(not vector.any() and not expected.any()), 1)


def _single_output(outputs: object) -> NumpyArray:
    if isinstance(outputs, dict):
        raise InputError(
            f"the metric accepts one output, and the model has several: {', '.join(outputs)}",
            hint=Hint(
                "write a metric class that selects one output: {}",
                argument("metrics", "metrics.py:Mine"),
            ),
        )
    return np.asarray(outputs)


def _flatten_outputs(outputs: object) -> NumpyArray:
    arrays = outputs.values() if isinstance(outputs, dict) else [outputs]
    return np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in arrays])


def _nontrivial_shape(array: NumpyArray) -> tuple[int, ...]:
    return tuple(size for size in array.shape if size != 1)
