"""Figures as people read them, on a terminal and on a page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Units of durations.
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
#: Names in a line; --json has them all.
_SHOWN = 6
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def human_size(size: int) -> str:
    """Return bytes as people read them, in powers of 1024.

    Example:
        >>> human_size(1536)
        '1.5 KiB'
    """
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def human_seconds(seconds: float) -> str:
    """Return a duration as people read it, with three digits.

    Example:
        >>> [human_seconds(each) for each in (0.00124, 0.000312, 12.34, 0)]
        ['1.24 ms', '312 µs', '12.3 s', '0 s']
    """
    for size, unit in _UNITS:
        if float(f"{seconds:.3g}") >= size:
            return f"{human_number(seconds / size)} {unit}"
    return f"{human_number(seconds / _UNITS[-1][0])} {_UNITS[-1][1]}" if seconds else "0 s"


def human_number(number: float) -> str:
    """Return a number as people read it: three digits, thousands apart, no exponent.

    Example:
        >>> [human_number(each) for each in (18204.7, 1240000, 99.96, 3.14159, 0.04567)]
        ['18,200', '1,240,000', '100', '3.14', '0.0457']
    """
    rounded = float(f"{number:.3g}")
    digits = 2 - math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded:,.{max(0, digits)}f}"


def human_error(error: float) -> str:
    """Return an error as people read it, with two digits.

    Example:
        >>> [human_error(each) for each in (0, 0.016, 3.02e-7, 1e-5)]
        ['0', '0.016', '3.0×10⁻⁷', '10⁻⁵']
    """
    if error == 0 or 1e-3 <= abs(error) < 1e4:
        return f"{error:.2g}" if abs(error) < 100 else f"{error:,.0f}"
    digits, _, power = f"{error:.1e}".partition("e")
    factor = "" if digits == "1.0" else f"{digits}×"
    return f"{factor}10{str(int(power)).translate(_RAISED)}"


def human_shape(shape: Sequence[int]) -> str:
    """Return a shape as it is typed: ``1x3``."""
    return "x".join(map(str, shape)) or "scalar"


def join_names(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are.

    Example:
        >>> join_names([f"conv_{number}" for number in range(8)])
        'conv_0, conv_1, conv_2, conv_3, conv_4, conv_5 and 2 more'
    """
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def short_path(path: Path) -> str:
    """Return the path as people type it here: relative where it lies below the current folder."""
    here = path.cwd()
    if path != here and path.is_relative_to(here):
        relative = str(path.relative_to(here))
        return f"./{relative}" if relative.startswith("-") else relative
    return str(path)
