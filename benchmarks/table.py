"""The rows that a group returns, and their table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.turns import Measured

#: The format of each unit: the factor from seconds or bytes, and the digits.
_UNITS = {"µs": (1e6, 2), "ms": (1e3, 1), "s": (1.0, 2), "MB": (1e-6, 0)}


@dataclass(frozen=True)
class Row:
    """A comparison.

    Attributes:
        group: The group that measured it.
        what: The measured action.
        against: The bare side.
        ours: Enginebay's seconds or bytes.
        bare: The bare side's seconds or bytes.
        unit: The printed unit: ``µs``, ``ms``, ``s`` or ``MB``.
        ratio: Ours to bare.
        limit: The largest allowed ratio.
        low: The lower end of the ratio's 95 % confidence interval; None without an interval.
        high: The upper end.
    """

    group: str
    what: str
    against: str
    ours: float
    bare: float
    unit: str
    ratio: float
    limit: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(
        cls, group: str, what: str, against: str, found: Measured, unit: str, limit: float
    ) -> Row:
        """Return the row of figures that were measured in turns."""
        figures = (found.ours, found.bare, unit, found.ratio)
        return cls(group, what, against, *figures, limit, found.low, found.high)

    @property
    def interval(self) -> str:
        """The interval as text; empty without an interval."""
        return "" if self.low is None else f"{self.low:.2f}–{self.high:.2f}"

    @property
    def holds(self) -> bool:
        """True if the ratio is within its limit."""
        return self.ratio <= self.limit

    def to_json(self) -> dict[str, Any]:
        """The row for ``--json``, in seconds or bytes."""
        return {**vars(self), "holds": self.holds}

    def cells(self) -> tuple[str, ...]:
        """The row as the table shows it."""
        return (
            self.group,
            self.what,
            self.against,
            self._figure(self.ours),
            self._figure(self.bare),
            f"{self.ratio:.3f}",
            self.interval,
            f"{self.limit:g}",
            _verdict(self.holds),
        )

    def _figure(self, value: float) -> str:
        factor, digits = _UNITS[self.unit]
        return f"{value * factor:.{digits}f} {self.unit}"


@dataclass(frozen=True)
class Budget:
    """A figure that is not a ratio, and its limit.

    Attributes:
        group: The group that measured it.
        what: The measured action.
        ours: The figure, in ``unit``.
        unit: Any unit: ``ms``, ``us``, ``%``.
        limit: The largest allowed figure, in the same unit.
    """

    group: str
    what: str
    ours: float
    unit: str
    limit: float

    @property
    def holds(self) -> bool:
        """True if the figure is within its limit."""
        return self.ours <= self.limit

    def to_json(self) -> dict[str, Any]:
        """The row for ``--json``, in its own unit."""
        return {**vars(self), "holds": self.holds}

    def cells(self) -> tuple[str, ...]:
        """The row as the table shows it."""
        figure, limit = f"{self.ours:.2f} {self.unit}", f"{self.limit:g} {self.unit}"
        return (self.group, self.what, "", figure, "", "", "", limit, _verdict(self.holds))


_HEAD = ("GROUP", "WHAT", "AGAINST", "OURS", "BARE", "RATIO", "95 %", "LIMIT", "")
_RIGHT = {3, 4, 5, 6, 7}


def table(rows: Sequence[Row | Budget]) -> str:
    """The rows in columns."""
    lines = [_HEAD, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(line, widths) for line in lines)


def _verdict(holds: bool) -> str:
    return "holds" if holds else "MISSED"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.rjust(width) if index in _RIGHT else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()
