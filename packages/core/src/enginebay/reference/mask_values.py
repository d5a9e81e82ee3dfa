"""Masks with other values than the example's: with holes, mostly padding, an empty row."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import ModelError
from enginebay.tensors import is_float

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from enginebay.models import BoundModel
    from enginebay.tensors import NumpyArray

#: The label of the first way in which an input of a single value varies.
OTHER_VALUES = "other values"

#: The label of the same with padding at the left end, as in decoders.
MIRRORED = "mirrored"


def find_float_masks(model: BoundModel) -> Iterator[str]:
    """Yield the names of float inputs that must stay zeros and ones.

    With values beyond them (3 and -2) the model fails, or returns NaN or infinity, as ``(1 - mask)
    * lowest`` does from 2 on; an engine's ``mask * -lowest + lowest`` overflows earlier. A variance
    of ones need not stay so, since the model takes 3.
    """
    for name, array in model.examples.items():
        if len(model.examples) > 1 and is_float(array) and ((array == 0) | (array == 1)).all():
            usual = model.example_outputs()
            with suppress(ModelError):
                outputs = model.run({name: np.asarray(5 * array - 2)})
                finite = (output for output in usual if np.isfinite(usual[output]).all())
                if all(np.isfinite(outputs[output]).all() for output in finite):
                    continue
            yield name


def vary_mask(kept: int) -> dict[str, Callable[[tuple[int, ...]], NumpyArray]]:
    """Return the ways in which a mask may vary: label → function of the shape.

    Args:
        kept: The value of an element that counts; 1 minus this value is padding.

    Example:
        >>> vary_mask(1)["mostly padding"]((2, 4)).tolist()
        [[1, 0, 0, 0], [1, 1, 0, 0]]
    """
    fills = {
        OTHER_VALUES: _add_holes,
        MIRRORED: lambda rows: _add_holes(rows[:, ::-1]),
        "padding at the left": lambda rows: _pad_half(rows[:, ::-1]),
        "mostly padding": _pad_most,
        "an empty row": _empty_a_row,
    }

    def drawing(
        fill: Callable[[NumpyArray], None],
    ) -> Callable[[tuple[int, ...]], NumpyArray]:
        def draw(shape: tuple[int, ...]) -> NumpyArray:
            padding = np.zeros(shape, np.int8)
            if padding.size:
                fill(padding.reshape(-1, shape[-1] if shape else 1))
            return padding if kept == 0 else 1 - padding

        return draw

    return {label: drawing(fill) for label, fill in fills.items()}


def _add_holes(rows: NumpyArray) -> None:
    """Mark the last element of each row and, in a row of more than three, an earlier one."""
    length = rows.shape[1]
    rows[:, -1] = 1
    if length > 3:
        for number, row in enumerate(rows):
            row[1 + number % (length - 3)] = 1


def _pad_half(rows: NumpyArray) -> None:
    """Mark about half of each row, from the right end on."""
    for number, row in enumerate(rows):
        row[(rows.shape[1] + number % 2) // 2 :] = 1


def _pad_most(rows: NumpyArray) -> None:
    """Keep one or two elements at the left end of each row: padding follows them."""
    for number, row in enumerate(rows):
        row[1 + number % 2 :] = 1


def _empty_a_row(rows: NumpyArray) -> None:
    """Mark every element of the first row, and the last one of the others."""
    rows[:, -1] = 1
    rows[0] = 1
