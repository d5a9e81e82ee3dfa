"""Wrong rewriters whose error the example does not show, made by rule.

A kind has operations, and errors that fit all its operations: an input of a single value that is
not read, exchanged sizes, a lost result next to a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .decisions import choices, labels, sides, suppression
from .inputs import biases, masks, numbers
from .outputs import exact, int8, int8_batches, int8_parts, narrow, ranks
from .paddings import ids, paddings
from .plant import Plant
from .rows import rows, together
from .sizes import between, multiples, pasts, sizes
from .values import values

if TYPE_CHECKING:
    from collections.abc import Iterator


def plants() -> Iterator[Plant]:
    """Yield every plant that is wrong."""
    makers = (masks, numbers, biases, sizes, pasts, narrow, exact, ranks, int8, *GAPS)
    yield from (plant for make in makers for plant in make() if plant.is_wrong())


#: Makers of plants that are wrong for inputs, sizes or decisions unlike the example's.
GAPS = (
    *(rows, together, choices, labels, sides, suppression, int8_batches, int8_parts, paddings),
    *(between, multiples, ids, values),
)


def right_models() -> Iterator[Plant]:
    """Yield the right models of all plants, which must be verified."""
    seen: set[tuple[str, str]] = set()
    for plant in plants():
        if plant.right_is_verified and (plant.kind, plant.operation) not in seen:
            seen.add((plant.kind, plant.operation))
            yield Plant(**{**vars(plant), "name": "", "wrong": plant.right})
