"""Table of output comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.display import Table, human_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.display import Block
    from enginebay.verdict.figures import OutputComparison

_NUMBERS = ("MAX ERROR", "RTOL", "ATOL")


def tabulate_outputs(outputs: Sequence[OutputComparison]) -> Iterator[Block]:
    """Yield a table with a row for each output, and a line for each output that differs."""
    if not outputs:
        return
    rows = [
        (
            output.name,
            output.dtype,
            human_shape(output.dims or output.shape),
            "-" if output.max_abs_error is None else f"{output.max_abs_error:.3g}",
            f"{output.rtol:.3g}",
            f"{output.atol:.3g}",
            _describe_result(output),
        )
        for output in outputs
    ]
    yield Table(("OUTPUT", "DTYPE", "SHAPE", *_NUMBERS, "RESULT"), rows, right=_NUMBERS)
    for output in outputs:
        if not output.passed and output.worst_index is not None:
            yield f"worst in {output.describe()}"


def _describe_result(output: OutputComparison) -> str:
    if output.passed:
        return f"ok, {output.reason}" if output.reason else "ok"
    if output.mismatched_count:
        return f"{output.mismatched_count} of {output.total} differ"
    return output.reason or "differs"
