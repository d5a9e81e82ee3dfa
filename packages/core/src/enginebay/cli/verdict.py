"""How a verdict is printed: one line, then a row for each output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from enginebay.cli.output import print_table, styled

if TYPE_CHECKING:
    from enginebay.verdict import OutputComparison, Verification

_COLOURS = {"verified": "green", "unverified": "yellow"}


def headline(verification: Verification) -> str:
    """The verdict, against what it was found, and how much was compared; or why nothing was.

    Example:
        >>> from enginebay.verdict import Verification
        >>> headline(Verification.unverified("nothing to compare with"))
        'unverified: nothing to compare with'
    """
    verdict = styled(verification.verdict, _COLOURS.get(verification.verdict, "red"), sys.stdout)
    if verification.reason:
        return f"{verdict}: {verification.reason}"
    samples = f"{verification.samples} sample{'' if verification.samples == 1 else 's'}"
    return f"{verdict} against {verification.reference} on {samples}"


def print_outputs(verification: Verification) -> None:
    """A row for each output that was compared, and a line for each that differs."""
    if not verification.outputs:
        return
    print_table(
        ("OUTPUT", "DTYPE", "SHAPE", "MAX ERROR", "RTOL", "ATOL", "RESULT"),
        [
            (
                output.name,
                output.dtype,
                shape_text(output.shape),
                _number(output.max_abs_error),
                f"{output.rtol:.3g}",
                f"{output.atol:.3g}",
                _result(output),
            )
            for output in verification.outputs
        ],
        right=("MAX ERROR", "RTOL", "ATOL"),
    )
    for output in verification.outputs:
        if not output.passed and output.worst_index is not None:
            sys.stdout.write(f"worst in {output.describe()}\n")


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as it is typed.

    Example:
        >>> shape_text((1, 3)), shape_text(())
        ('1x3', 'scalar')
    """
    return "x".join(map(str, shape)) or "scalar"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _result(output: OutputComparison) -> str:
    if output.passed:
        return f"ok, {output.reason}" if output.reason else "ok"
    if output.mismatched_count:
        return f"{output.mismatched_count} of {output.total} differ"
    return output.reason or "differs"
