"""Detections as the usual exports have them: which output, or column, holds what."""

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
    """The detections of one side; one row each.

    Attributes:
        boxes: ``[N, 4]``: x1, y1, x2, y2.
        scores: ``[N]``; None where there are none.
        labels: ``[N]``, likewise.
        places: ``[N, k]``: where they are in the output: the picture of a batch, and the row.
        others: ``[N, k]``: what else a row holds, such as the coefficients of a mask.
        odd: How many rows were left out because a box or score is NaN or infinite.
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
        """True for boxes whose overlap is defined."""
        size = self.boxes[:, 2:] - self.boxes[:, :2]
        result: NumpyArray = np.all(size > 0, axis=-1)
        return result

    @property
    def kinds(self) -> NumpyArray:
        """The picture and the label: only boxes with the same ones are compared."""
        # The last of a place is the row; before it there is the picture, or nothing.
        labels = np.zeros(len(self)) if self.labels is None else self.labels
        return np.column_stack([self.places[:, :-1], labels])

    def show(self, row: int) -> str:
        """One of them, for the user."""
        place = ", ".join(str(i) for i in self.places[row].tolist())
        box = ", ".join(f"{value:.6g}" for value in self.boxes[row].tolist())
        score = "" if self.scores is None else f", score {self.scores[row]:.4g}"
        label = "" if self.labels is None else f", label {self.labels[row]:g}"
        return f"[{place}] at {box}{score}{label}"


def overlaps(left: NumpyArray, right: NumpyArray) -> NumpyArray:
    """Intersection over union of each box with its counterpart; 0 where one has no area.

    Example:
        >>> overlaps(np.array([[0, 0, 2, 2]]), np.array([[0, 0, 2, 1], [5, 5, 6, 6], [1, 1, 1, 1]]))
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
    """Where boxes, scores and labels are.

    Attributes:
        names: The outputs.
        scores: The output of the scores; None where there are none.
        labels: The output of the labels, likewise.
    """

    names: tuple[str, ...]
    scores: str | None
    labels: str | None

    @classmethod
    def of(cls, outputs: Mapping[str, NumpyArray]) -> Layout:
        """Find out, from shapes and dtypes.

        Raises:
            UsageError: These are no detections.
        """
        names = tuple(outputs)
        first = outputs[names[0]]
        columns = first.shape[-1] if first.ndim in (2, 3) and first.dtype.kind in "f" else 0
        lead = first.shape[:-1]
        rest = names[1:]
        fits = all(_without_last_one(outputs[name], lead).shape == lead for name in rest)
        most = {4: 2, 5: 1}.get(columns, 0)
        if columns < 4 or not fits or len(rest) > most:
            shapes = ", ".join(f"'{name}' {a.dtype} {a.shape}" for name, a in outputs.items())
            raise UsageError(f"detections wants {_FORMS}; there is {shapes}")
        floats = [name for name in rest if outputs[name].dtype.kind == "f"]
        whole = [name for name in rest if name not in floats]
        own_score = names[0] if columns > 4 else None
        scores = floats.pop(0) if floats and not own_score else own_score
        own_label = names[0] if columns >= 6 else None
        return cls(names, scores, next(iter([*whole, *floats]), own_label))

    def difference(
        self, expected: Mapping[str, NumpyArray], found: Mapping[str, NumpyArray]
    ) -> str:
        """Why the found outputs cannot hold the same kind of rows; empty where they can."""
        for name, values in expected.items():
            is_first = name == self.names[0]
            wanted, given = values.shape, found[name].shape
            rows_at = values.ndim - 2 if is_first else found[self.names[0]].ndim - 2
            cut = tuple(size for axis, size in enumerate(wanted) if axis != rows_at)
            if cut != tuple(size for axis, size in enumerate(given) if axis != rows_at):
                return f"the shape of '{name}' differs: expected {wanted}, found {given}"
        lead = found[self.names[0]].shape[:-1]
        for name in self.names[1:]:
            if _without_last_one(found[name], lead).shape != lead:
                return f"'{name}' has other rows than '{self.names[0]}': {found[name].shape}"
        return ""

    def read(self, outputs: Mapping[str, NumpyArray], *, padding: float) -> Boxes:
        """The detections, without padding.

        A row pads an output of a fixed size if its score is ``padding`` or less, or its label is
        negative.
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
        """Refuse scores that are no probabilities: padding could not be told from them.

        Raises:
            UsageError: A score is negative, and not -1.
        """
        table = outputs[self.names[0]]
        scores = self._column(outputs, self.scores, table.reshape(-1, table.shape[-1]), 4)
        if scores is not None and (wrong := scores[(scores < 0) & (scores != -1)]).size:
            raise UsageError(
                f"detections wants scores from 0 to 1 in '{self.scores}', or -1 for rows that only "
                f"pad it; there is {wrong[0]:.4g}",
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


def _without_last_one(values: NumpyArray, lead: tuple[int, ...]) -> NumpyArray:
    """``[B, N, 1]`` as ``[B, N]``."""
    return values[..., 0] if values.shape == (*lead, 1) else values
