"""Reads boxes, scores and labels from the usual output formats of detectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors.arrays import NumpyArray

_FORMS = (
    "boxes of shape [N, 4] or [B, N, 4] as x1, y1, x2, y2, with scores and labels of shape [N] or "
    "[B, N]; or rows of x1, y1, x2, y2, score, and the label in the next column or output; and "
    "masks of shape [N, h, w] or [B, N, h, w]"
)


class Boxes(NamedTuple):
    """The detections in a model's outputs; each array has a row for each detection.

    Attributes:
        boxes: ``[N, 4]``: x1, y1, x2, y2.
        scores: ``[N]``; None for outputs without scores.
        labels: ``[N]``; None for outputs without labels.
        indices: ``[N, 1]``: the row in the output; or ``[N, 2]``: the image and the row.
        others: ``[N, k]``: the other columns of the output, such as mask coefficients.
        masks: The whole output ``[…, h, w]``, padding included, for which ``indices`` are made:
            a copy of masks may be large; None for outputs without masks.
        invalid: The number of rows omitted because the box or score is NaN or infinite.
    """

    boxes: NumpyArray
    scores: NumpyArray | None
    labels: NumpyArray | None
    indices: NumpyArray
    others: NumpyArray
    masks: NumpyArray | None
    invalid: int

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def has_area(self) -> NumpyArray:
        """Whether each box has a positive width and height, ``[N] bool``."""
        size = self.boxes[:, 2:] - self.boxes[:, :2]
        result: NumpyArray = np.all(size > 0, axis=-1)
        return result

    @property
    def groups(self) -> NumpyArray:
        """The image and label of each box; only boxes of the same image and label can match."""
        labels = np.zeros(len(self)) if self.labels is None else self.labels
        return np.column_stack([self.indices[:, :-1], labels])

    def read_mask(self, row: int) -> NumpyArray:
        """Return the mask of a detection, ``[h, w]``."""
        assert self.masks is not None
        mask: NumpyArray = self.masks[tuple(self.indices[row])]
        return mask

    def describe_row(self, row: int) -> str:
        """Return the index, box, score and label of a detection as text for a message."""
        index = ", ".join(str(i) for i in self.indices[row].tolist())
        box = ", ".join(f"{value:.6g}" for value in self.boxes[row].tolist())
        score = "" if self.scores is None else f", score {self.scores[row]:.4g}"
        label = "" if self.labels is None else f", label {self.labels[row]:g}"
        return f"[{index}] at {box}{score}{label}"


def compute_overlaps(left: NumpyArray, right: NumpyArray) -> NumpyArray:
    """Return the intersection over union of ``left[n]`` and ``right[n]``; 0 for boxes without area.

    A single box in ``left`` is compared with every box in ``right``.

    Example:
        >>> boxes = np.array([[0, 0, 2, 1], [5, 5, 6, 6], [1, 1, 1, 1]])
        >>> compute_overlaps(np.array([[0, 0, 2, 2]]), boxes)
        array([0.5, 0. , 0. ])
    """
    low = np.maximum(left[:, :2], right[:, :2])
    high = np.minimum(left[:, 2:], right[:, 2:])
    intersection = (high - low).clip(0).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).clip(0).prod(-1) for boxes in (left, right)]
    union = areas[0] + areas[1] - intersection
    zeros = np.zeros(intersection.shape)  # two boxes without an area also have no union
    result: NumpyArray = np.divide(intersection, union, out=zeros, where=intersection > 0)
    return result


class Layout(NamedTuple):
    """The names of a detector's outputs that contain boxes, scores, labels and masks.

    Attributes:
        names: The names of all outputs; the first one contains the boxes.
        scores: The name of the output with the scores; None without scores.
        labels: The name of the output with the labels; None without labels.
        masks: The name of the output with the masks; None without masks.
    """

    names: tuple[str, ...]
    scores: str | None
    labels: str | None
    masks: str | None

    @classmethod
    def from_outputs(cls, outputs: Mapping[str, NumpyArray]) -> Layout:
        """Detect the layout from the shapes and dtypes of a detector's outputs.

        Raises:
            UsageError: The outputs do not have the shapes and dtypes of detections.
        """
        names = tuple(outputs)
        first = outputs[names[0]]
        columns = first.shape[-1] if first.ndim in (2, 3) and first.dtype.kind in "f" else 0
        leading = first.shape[:-1]
        masks = next((n for n in names[1:] if _is_masks(outputs[n], leading)), None)
        rest = [name for name in names[1:] if name != masks]
        fits = all(_drop_last_axis(outputs[name], leading).shape == leading for name in rest)
        # Scores and labels, or labels alone if the fifth column contains the scores.
        max_outputs = {4: 2, 5: 1}.get(columns, 0)
        if columns < 4 or not fits or len(rest) > max_outputs:
            shapes = ", ".join(f"'{name}' {a.dtype} {a.shape}" for name, a in outputs.items())
            raise UsageError(f"the comparator 'detections' expects {_FORMS}; found {shapes}")
        # Their order differs between detectors, but labels are usually integers.
        floats = [name for name in rest if outputs[name].dtype.kind == "f"]
        integers = [name for name in rest if name not in floats]
        score_column = names[0] if columns > 4 else None
        scores = floats.pop(0) if floats and not score_column else score_column
        label_column = names[0] if columns >= 6 else None
        return cls(names, scores, next(iter([*integers, *floats]), label_column), masks)

    def describe_difference(
        self, expected: Mapping[str, NumpyArray], found: Mapping[str, NumpyArray]
    ) -> str:
        """Describe a difference of the outputs' shapes, or return an empty text.

        The number of rows may differ between ``expected`` and ``found``, but not between the
        outputs in ``found``.
        """
        for name, values in expected.items():
            is_first = name == self.names[0]
            target, actual = values.shape, found[name].shape
            row_axis = values.ndim - 2 if is_first else found[self.names[0]].ndim - 2
            cut = tuple(size for axis, size in enumerate(target) if axis != row_axis)
            if cut != tuple(size for axis, size in enumerate(actual) if axis != row_axis):
                return f"the shape of '{name}' differs: expected {target}, found {actual}"
        leading = found[self.names[0]].shape[:-1]
        for name in self.names[1:]:
            values = found[name]
            is_masks = name == self.masks and _is_masks(values, leading)
            if not is_masks and _drop_last_axis(values, leading).shape != leading:
                return f"'{name}' and '{self.names[0]}' have different rows: {found[name].shape}"
        return ""

    def read_boxes(self, outputs: Mapping[str, NumpyArray], *, padding_score: float) -> Boxes:
        """Return the detections without padding rows, which fill an output of fixed size.

        A row is padding if its score is at most ``padding_score``, or its label is negative.
        """
        first = outputs[self.names[0]]
        leading = first.shape[:-1]
        table = first.reshape(-1, first.shape[-1]).astype(np.float64)
        indices = np.indices(leading).reshape(len(leading), -1).T
        scores = self._read_column(outputs, self.scores, table, 4)
        labels = self._read_column(outputs, self.labels, table, 5)
        boxes = table[:, :4]
        is_real = np.ones(len(table), bool)
        is_finite = np.isfinite(boxes).all(-1)
        if scores is not None:
            is_real &= ~(scores <= padding_score)  # a score of NaN is not padding
            is_finite &= np.isfinite(scores)
        if labels is not None:
            is_real &= ~(labels < 0)
        invalid = int(np.count_nonzero(is_real & ~is_finite))
        is_real &= is_finite
        return Boxes(
            boxes[is_real],
            None if scores is None else scores[is_real],
            None if labels is None else np.rint(labels[is_real]),
            indices[is_real],
            table[is_real, 6:],
            None if self.masks is None else outputs[self.masks],
            invalid,
        )

    def check_scores(self, outputs: Mapping[str, NumpyArray]) -> None:
        """Raise a ``UsageError`` for negative scores other than -1, the score of padding rows."""
        table = outputs[self.names[0]]
        scores = self._read_column(outputs, self.scores, table.reshape(-1, table.shape[-1]), 4)
        if scores is not None and (wrong := scores[(scores < 0) & (scores != -1)]).size:
            raise UsageError(
                f"the comparator 'detections' expects scores from 0 to 1 in '{self.scores}', or -1 "
                f"for padding rows; found {wrong[0]:.4g}",
                hint="add a sigmoid or softmax to the end of the model",
            )

    def _read_column(
        self,
        outputs: Mapping[str, NumpyArray],
        name: str | None,
        table: NumpyArray,
        column: int,
    ) -> NumpyArray | None:
        if name is None:
            return None
        if name == self.names[0]:
            return table[:, column]
        return outputs[name].reshape(-1).astype(np.float64)


def _is_masks(values: NumpyArray, leading: tuple[int, ...]) -> bool:
    """Whether there is an array of pixels for each row."""
    return values.ndim == len(leading) + 2 and values.shape[:-2] == leading


def _drop_last_axis(values: NumpyArray, leading: tuple[int, ...]) -> NumpyArray:
    """Remove the last axis of the values if their shape is ``(*leading, 1)``."""
    return values[..., 0] if values.shape == (*leading, 1) else values
