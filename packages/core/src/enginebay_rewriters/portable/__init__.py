"""Portable lowerings: unsupported operators expressed by operators that every engine supports.

They use elementwise arithmetic, comparisons, ``where``, sums, maxima, matrix products, convolutions
and data movement: reshape, permute, cat, slice, expand, pad. Values that do not depend on an input,
such as a matrix made from ``arange``, become constants afterwards. Each lowering returns torch's
result for every input, including the dtype, the order of ties and NaN. Exceptions are stated in the
docstrings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enginebay import RewriterSet


def portable_lowerings() -> RewriterSet:
    """Return the set of all portable lowerings."""
    from enginebay_rewriters.portable import (  # noqa: F401  # each module adds its lowerings to the set
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
    from enginebay_rewriters.portable.common import lowerings

    return lowerings
