"""An evaluation in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay_lab.evaluation.resuming import resumed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.loop import Loop
    from enginebay_lab.evaluation.reference import TorchModel
    from enginebay_lab.evaluation.run import Run
    from enginebay_lab.evaluation.totals import Totals


def evaluate_here(
    run: Run,
    candidates: Sequence[Candidate],
    loop: Loop,
    model: TorchModel | None,
    watch: Callable[[int], None] | None = None,
) -> Totals:
    """Evaluate every item.

    Args:
        run: What is evaluated.
        candidates: The artifacts, whose engines the loop has started.
        loop: The loop.
        model: The PyTorch model; None for none.
        watch: Called with the number of items so far.

    Raises:
        InputError: An item does not fit.
        ModelError: The model raised.
        MetricError: A metric raised on PyTorch's outputs.
        OSError: The disk does not take a checkpoint.
    """
    totals, reader, begun = resumed(run, candidates, compared=model is not None)
    loop.begin(model, totals.count, totals.lost, begun)

    def after_chunk(count: int) -> None:
        if watch is not None:
            watch(count)
        if run.journal is not None and run.journal.is_due:
            totals.save(run.journal, [loop.open_shard(reader)])

    for shard in loop.shards(reader, after_chunk):
        totals.add(shard)
    return totals
