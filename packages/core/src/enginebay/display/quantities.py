"""Formatting of numbers with units, rounded for people who read them on a terminal or a page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_DURATION_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
#: The largest number of names in one line; --json lists all of them.
_MAX_NAMES = 6
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def human_size(size: int) -> str:
    """Format a number of bytes, with units in powers of 1024.

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
    """Format a duration with three significant digits.

    Example:
        >>> [human_seconds(seconds) for seconds in (0.00124, 0.000312, 12.34, 0)]
        ['1.24 ms', '312 µs', '12.3 s', '0 s']
    """
    for size, unit in _DURATION_UNITS:
        if float(f"{seconds:.3g}") >= size:  # rounded first: 0.9996 s is 1 s, not 1,000 ms
            return f"{human_number(seconds / size)} {unit}"
    size, unit = _DURATION_UNITS[-1]
    return f"{human_number(seconds / size)} {unit}" if seconds else "0 s"


def human_number(number: float) -> str:
    """Format a number with three significant digits and separated thousands, without exponent.

    Example:
        >>> [human_number(number) for number in (18204.7, 1240000, 99.96, 3.14159, 0.04567)]
        ['18,200', '1,240,000', '100', '3.14', '0.0457']
    """
    rounded = float(f"{number:.3g}")
    digits = 2 - math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded:,.{max(0, digits)}f}"


def human_error(error: float) -> str:
    """Format a numerical error with two significant digits.

    Example:
        >>> [human_error(error) for error in (0, 0.016, 3.02e-7, 1e-5)]
        ['0', '0.016', '3.0×10⁻⁷', '10⁻⁵']
    """
    if error == 0 or 1e-3 <= abs(error) < 1e4:
        return f"{error:.2g}" if abs(error) < 100 else f"{error:,.0f}"
    digits, _, power = f"{error:.1e}".partition("e")
    factor = "" if digits == "1.0" else f"{digits}×"
    return f"{factor}10{str(int(power)).translate(_SUPERSCRIPT)}"


def human_shape(shape: Sequence[int | str]) -> str:
    """Format a shape as on the command line, such as ``1x3`` or ``batchx3``."""
    return "x".join(map(str, shape)) or "scalar"


def join_names(names: Sequence[str]) -> str:
    """Return the first few names, separated by commas, and the number of further names.

    Example:
        >>> join_names([f"conv_{number}" for number in range(8)])
        'conv_0, conv_1, conv_2, conv_3, conv_4, conv_5 and 2 more'
    """
    rest = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + rest


def list_files(files: Iterable[Path]) -> str:
    """Return the names of existing files with their sizes."""
    return ", ".join(f"{file.name} ({human_size(file.stat().st_size)})" for file in files)


def short_path(path: Path) -> str:
    """Return a path as text for users: relative if the path is inside the working directory."""
    folder = path.cwd()
    if path != folder and path.is_relative_to(folder):
        relative = str(path.relative_to(folder))
        # A command would read a leading hyphen as a flag.
        return f"./{relative}" if relative.startswith("-") else relative
    return str(path)
