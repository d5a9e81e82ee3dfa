"""Lowerings for engines, and exporters, that lack an operator: in terms of what all have.

They call elementwise arithmetic, comparisons, ``where``, sums and largest values, matrix products,
convolutions, and what moves elements about: reshape, permute, cat, slice, expand, pad. Whatever
depends on no input, such as a matrix made from ``arange``, is folded afterwards. Each returns what
torch does for every input, its dtype, order of ties and NaN included, unless its file says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enginebay.rewriting.declaration import RewriterSet


def portable_lowerings() -> RewriterSet:
    """Return the lowerings of every file of this folder."""
    from enginebay.rewriting.portable import (  # noqa: F401  # each adds its own to the set
        arithmetic,
        complex_numbers,
        contraction,
        fourier,
        gather,
        images,
        ordering,
        scatter,
        solving,
        sums,
    )
    from enginebay.rewriting.portable.common import lowerings

    return lowerings
