"""The metrics that need no package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors import NumpyArray


class _Mean:
    """The mean of what a metric finds; its state is a sum and a count."""

    higher_is_better = True
    against = "target"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all items."""
        self._sum, self._count = 0.0, 0

    def compute(self) -> float:
        """The mean; NaN before the first item."""
        return self._sum / self._count if self._count else float("nan")

    @property
    def metric_state(self) -> dict[str, float]:
        """What :meth:`merge_state` takes."""
        return {"sum": self._sum, "count": self._count}

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Add the items of another metric of this kind."""
        self._add(float(state["sum"]), int(state["count"]))

    def _add(self, total: float, count: int) -> None:
        self._sum += total
        self._count += count


class TopK(_Mean):
    """The share of targets among the ``k`` largest entries along the output's last axis.

    Outputs are floats of shape ``[..., classes]``; targets are class numbers, one for each row.
    A row that holds NaN is wrong.

    Args:
        k: How many entries; 1 is the accuracy.

    Example:
        >>> top = TopK(1)
        >>> top.update(np.float32([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
        >>> top.compute()
        0.5
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self._k = k

    def update(self, outputs: Any, target: Any) -> None:
        """Add an item.

        Raises:
            InputError: The target does not fit the outputs.
        """
        scores = _only(outputs)
        labels = np.asarray(target)
        if not scores.ndim:
            raise InputError("the output is one number, and wanted are scores of classes")
        if labels.dtype.kind not in "iu":
            raise InputError(f"the target has dtype {labels.dtype}, wanted integers: class numbers")
        rows = scores.reshape(-1, scores.shape[-1])
        if labels.size != len(rows):
            raise InputError(
                f"the target has shape {labels.shape}, and the output {scores.shape} has rows for "
                f"{scores.shape[:-1]}"
            )
        labels = labels.reshape(-1, 1)
        if labels.size and (labels.min() < 0 or labels.max() >= scores.shape[-1]):
            raise InputError(
                f"the target {labels.min() if labels.min() < 0 else labels.max()} is no class: "
                f"the output has {scores.shape[-1]}"
            )
        if self._k == 1:
            hits = rows.argmax(-1) == labels[:, 0]
        else:
            # As argmax does, the first of equal entries comes first.
            first = np.argsort(-rows, axis=-1, kind="stable")[:, : self._k]
            hits = (first == labels).any(-1)
        if rows.dtype.kind in "fV":
            hits &= ~np.isnan(rows).any(-1)
        self._add(float(np.count_nonzero(hits)), len(rows))

    def update_many(self, outputs: Any, targets: Any) -> None:
        """Add items that lie one upon the other: whole numbers have the same sum in any order."""
        self.update(outputs, targets)


class MeanAbsoluteError(_Mean):
    """The mean of ``|output - target|`` over all entries of all items.

    The target has as many entries as the output.
    """

    higher_is_better = False

    def update(self, outputs: Any, target: Any) -> None:
        """Add an item.

        Raises:
            InputError: The target does not fit the outputs.
        """
        self.update_many(_only(outputs)[None], np.asarray(target)[None])

    def update_many(self, outputs: Any, targets: Any) -> None:
        """Add items that lie one upon the other, each with a sum of its own.

        Raises:
            InputError: The targets do not fit the outputs.
        """
        found, wanted = outputs[0], targets[0]
        if wanted.dtype.kind not in "biuf":
            raise InputError(f"the target has dtype {wanted.dtype}, wanted numbers")
        if found.size != wanted.size or _squeezed(found) != _squeezed(wanted):
            raise InputError(
                f"the target has shape {wanted.shape}, and the output {found.shape}: wanted equal"
            )
        error = np.abs(outputs.astype(np.float64) - targets.reshape(outputs.shape))
        for total in np.ascontiguousarray(error).reshape(len(error), -1).sum(-1).tolist():
            self._add(total, found.size)


class Cosine(_Mean):
    """The mean over the items of the cosine between the outputs and PyTorch's.

    It needs no target: 1 is the same direction. All outputs of an item make one vector.
    """

    against = "reference"

    def update(self, outputs: Any, reference: Any) -> None:
        """Add an item."""
        found, wanted = _vector(outputs), _vector(reference)
        length = float(np.linalg.norm(found) * np.linalg.norm(wanted))
        if length:
            self._add(float(found @ wanted) / length, 1)
        else:
            self._add(float(not found.any() and not wanted.any()), 1)


def _only(outputs: Any) -> NumpyArray:
    """The output of a model that has one.

    Raises:
        InputError: There are several.
    """
    if isinstance(outputs, dict):
        raise InputError(
            f"it takes one output, and the model has {', '.join(outputs)}",
            hint="write a metric that picks one, in a file: --metric metrics.py:Mine",
        )
    return np.asarray(outputs)


def _vector(outputs: Any) -> NumpyArray:
    arrays = outputs.values() if isinstance(outputs, dict) else [outputs]
    return np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in arrays])


def _squeezed(array: NumpyArray) -> tuple[int, ...]:
    return tuple(size for size in array.shape if size != 1)
