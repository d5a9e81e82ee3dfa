"""Detections in the usual output formats: the outputs or columns with boxes, scores, labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors import NumpyArray

_FORMS = (
    "boxes of shape [N, 4] or [B, N, 4] as x1, y1, x2, y2, with scores and labels of shape [N] or "
    "[B, N]; or rows of x1, y1, x2, y2, score, and the label in the next column or output"
)


class Boxes(NamedTuple):
    """The detections of one side, one in each row.

    Attributes:
        boxes: ``[N, 4]``: x1, y1, x2, y2.
        scores: ``[N]``; None if there are no scores.
        labels: ``[N]``; None if there are no labels.
        places: ``[N, k]``: indices in the output: the image in a batch, and the row.
        others: ``[N, k]``: the other columns of a row, such as mask coefficients.
        odd: The number of omitted rows, whose box or score is NaN or infinite.
    """

    boxes: NumpyArray
    scores: NumpyArray | None
    labels: NumpyArray | None
    places: NumpyArray
    others: NumpyArray
    odd: int

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def has_area(self) -> NumpyArray:
        """For each box, whether its overlap with others is defined."""
        size = self.boxes[:, 2:] - self.boxes[:, :2]
        result: NumpyArray = np.all(size > 0, axis=-1)
        return result

    @property
    def kinds(self) -> NumpyArray:
        """The image and the label of each box: only boxes with equal ones are compared."""
        # The last index is the row; before it is the index of the image, if there is a batch.
        labels = np.zeros(len(self)) if self.labels is None else self.labels
        return np.column_stack([self.places[:, :-1], labels])

    def show(self, row: int) -> str:
        """Describe one detection for messages."""
        place = ", ".join(str(i) for i in self.places[row].tolist())
        box = ", ".join(f"{value:.6g}" for value in self.boxes[row].tolist())
        score = "" if self.scores is None else f", score {self.scores[row]:.4g}"
        label = "" if self.labels is None else f", label {self.labels[row]:g}"
        return f"[{place}] at {box}{score}{label}"


def compute_overlaps(left: NumpyArray, right: NumpyArray) -> NumpyArray:
    """Return the intersection over union of each pair of boxes; 0 if a box has no area.

    Example:
        >>> compute_overlaps(np.array([[0, 0, 2, 2]]), np.array([[0, 0, 2, 1], [5, 5, 6, 6], [1, 1, 1, 1]]))
        array([0.5, 0. , 0. ])
    """
    low = np.maximum(left[:, :2], right[:, :2])
    high = np.minimum(left[:, 2:], right[:, 2:])
    shared = (high - low).clip(0).prod(-1)
    areas = [(side[:, 2:] - side[:, :2]).clip(0).prod(-1) for side in (left, right)]
    union = areas[0] + areas[1] - shared
    result: NumpyArray = np.divide(shared, union, out=np.zeros(shared.shape), where=shared > 0)
    return result


class Layout(NamedTuple):
    """The outputs with boxes, scores and labels.

    Attributes:
        names: The names of all outputs, that of the boxes first.
        scores: The output with the scores; None if there are no scores.
        labels: The output with the labels; None if there are no labels.
    """

    names: tuple[str, ...]
    scores: str | None
    labels: str | None

    @classmethod
    def of(cls, outputs: Mapping[str, NumpyArray]) -> Layout:
        """Detect the layout from shapes and dtypes.

        Raises:
            UsageError: The outputs are not detections.
        """
        names = tuple(outputs)
        first = outputs[names[0]]
        columns = first.shape[-1] if first.ndim in (2, 3) and first.dtype.kind in "f" else 0
        lead = first.shape[:-1]
        rest = names[1:]
        fits = all(_drop_last_axis(outputs[name], lead).shape == lead for name in rest)
        most = {4: 2, 5: 1}.get(columns, 0)
        if columns < 4 or not fits or len(rest) > most:
            shapes = ", ".join(f"'{name}' {a.dtype} {a.shape}" for name, a in outputs.items())
            raise UsageError(f"detections expects {_FORMS}; found {shapes}")
        floats = [name for name in rest if outputs[name].dtype.kind == "f"]
        whole = [name for name in rest if name not in floats]
        own_score = names[0] if columns > 4 else None
        scores = floats.pop(0) if floats and not own_score else own_score
        own_label = names[0] if columns >= 6 else None
        return cls(names, scores, next(iter([*whole, *floats]), own_label))

    def difference(
        self, expected: Mapping[str, NumpyArray], found: Mapping[str, NumpyArray]
    ) -> str:
        """Return why the found outputs cannot have rows of the same kind; empty if they can."""
        for name, values in expected.items():
            is_first = name == self.names[0]
            target, actual = values.shape, found[name].shape
            rows_at = values.ndim - 2 if is_first else found[self.names[0]].ndim - 2
            cut = tuple(size for axis, size in enumerate(target) if axis != rows_at)
            if cut != tuple(size for axis, size in enumerate(actual) if axis != rows_at):
                return f"the shape of '{name}' differs: expected {target}, found {actual}"
        lead = found[self.names[0]].shape[:-1]
        for name in self.names[1:]:
            if _drop_last_axis(found[name], lead).shape != lead:
                return f"'{name}' and '{self.names[0]}' have different rows: {found[name].shape}"
        return ""

    def read(self, outputs: Mapping[str, NumpyArray], *, padding: float) -> Boxes:
        """Return the detections without padding.

        A row is padding of an output of fixed size if its score is ``padding`` or less, or its
        label is negative.
        """
        first = outputs[self.names[0]]
        lead = first.shape[:-1]
        table = first.reshape(-1, first.shape[-1]).astype(np.float64)
        places = np.indices(lead).reshape(len(lead), -1).T
        scores = self._column(outputs, self.scores, table, 4)
        labels = self._column(outputs, self.labels, table, 5)
        boxes = table[:, :4]
        kept = np.ones(len(table), bool)
        regular = np.isfinite(boxes).all(-1)
        if scores is not None:
            kept &= ~(scores <= padding)
            regular &= np.isfinite(scores)
        if labels is not None:
            kept &= ~(labels < 0)
        odd = int(np.count_nonzero(kept & ~regular))
        kept &= regular
        return Boxes(
            boxes[kept],
            None if scores is None else scores[kept],
            None if labels is None else np.rint(labels[kept]),
            places[kept],
            table[kept, 6:],
            odd,
        )

    def check(self, outputs: Mapping[str, NumpyArray]) -> None:
        """Check that scores are probabilities: others cannot be distinguished from padding.

        Raises:
            UsageError: A score is negative, and not -1.
        """
        table = outputs[self.names[0]]
        scores = self._column(outputs, self.scores, table.reshape(-1, table.shape[-1]), 4)
        if scores is not None and (wrong := scores[(scores < 0) & (scores != -1)]).size:
            raise UsageError(
                f"detections expects scores from 0 to 1 in '{self.scores}', or -1 for padding "
                f"rows; found {wrong[0]:.4g}",
                hint="let the model end with a sigmoid or softmax",
            )

    def _column(
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


def _drop_last_axis(values: NumpyArray, lead: tuple[int, ...]) -> NumpyArray:
    """Reshape ``[B, N, 1]`` to ``[B, N]``."""
    return values[..., 0] if values.shape == (*lead, 1) else values
