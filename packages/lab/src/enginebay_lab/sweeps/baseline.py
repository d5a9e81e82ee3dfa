"""Finds regressions since an earlier sweep, such as worse verdicts and missing results."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from enginebay.commands import human_number, human_seconds
from enginebay_lab.sweeps.row_pairs import pair_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.authors import Latency
    from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.sweeps.sweep_rows import SweepRow

#: The verdicts from the best to the worst. A lost cell has none of them.
VERDICTS = ("verified", "unverified", "mismatched", "crashed", "failed")
#: The allowed drop of a metric for cells without ``max_drop``, relative to PyTorch's value.
RELATIVE_DROP = 0.01
#: Calls are slower if they take this many times as long, times the disagreement within both runs.
#: The interval of one run does not predict the next run: on a machine with other work, in 91 % of
#: 1,560 pairs of runs of the same engine the intervals did not overlap, and calls took up to 1.4
#: times as long. By this rule no pair was slower.
MIN_SLOWDOWN = 1.25
#: The number of quantiles in a row of a benchmark: from 0 % to 100 %.
_QUANTILES = 101
#: The maximum number of labels in a note.
_MAX_LABELS = 3


def find_regressions(
    rows: Sequence[SweepRow], baseline: Sequence[SweepRow]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the regressions of a sweep since an earlier sweep, the baseline.

    The two rows of each cell (one model, backend and precision) are compared. Regressions are: a
    worse verdict (later in :data:`VERDICTS`); a metric that dropped by more than the cell's
    ``max_drop`` or :data:`RELATIVE_DROP`; calls on the same machine that take at least
    :data:`MIN_SLOWDOWN` times as long, if the confidence intervals of the two times do not
    overlap; and a cell, result, metric or speed that is in the baseline and missing now.

    Returns:
        A sentence for each regression, and notes about results that were not compared.
    """
    pairs = pair_rows(rows, baseline)
    comparison = _BaselineComparison()
    for row, before in pairs.same:
        comparison.compare_rows(row, before)
    for before in pairs.gone:
        comparison.regressions.append(
            f"{before.label}: not in this sweep ({before.verdict} in the baseline)"
        )
    notes = [f"{text}: {count}" for text, count in comparison.uncompared.items()]
    if pairs.new:
        notes.insert(0, f"cells that are not in the baseline: {_list_labels(pairs.new)}")
    return tuple(comparison.regressions), tuple(notes)


def find_judged_cells(rows: Sequence[SweepRow], baseline: Sequence[SweepRow]) -> frozenset[str]:
    """Return the keys of the rows for which the baseline (an earlier sweep) has a result.

    A result is a row of the same model, backend and settings, whose verdict is not ``lost``.
    """
    same = pair_rows(rows, baseline).same
    return frozenset(row.key for row, before in same if before.verdict != "lost")


class _BaselineComparison:
    """Compares the rows of a sweep with an earlier sweep (baseline), and collects the regressions.

    Attributes:
        regressions: A sentence for each regression.
        uncompared: The number of results that were not compared, for each reason.
    """

    def __init__(self) -> None:
        self.regressions: list[str] = []
        self.uncompared: Counter[str] = Counter()

    def compare_rows(self, row: SweepRow, before: SweepRow) -> None:
        """Record the regressions of a row since ``before``, the matching row of the baseline."""
        if before.verdict == "lost":
            self.uncompared["cells without a result in the baseline, so not compared"] += 1
        elif row.verdict == "lost":
            text = f"lost ({before.verdict} in the baseline): {row.reason}"
            self._add_regression(row, before, text)
        else:
            if _verdict_rank(row) > _verdict_rank(before):
                reason = f": {row.reason}" if row.reason else ""
                text = f"{row.verdict} ({before.verdict} in the baseline){reason}"
                self._add_regression(row, before, text)
            if row.verdict not in ("crashed", "failed"):
                self._compare_metrics(row, before)
                self._compare_speed(row, before)

    def _add_regression(self, row: SweepRow, before: SweepRow, text: str) -> None:
        self.regressions.append(f"{row.label}: {text}{_list_causes(row, before)}")

    def _compare_metrics(self, row: SweepRow, before: SweepRow) -> None:
        metrics = {metric.metric: metric for metric in row.metrics}
        for earlier in before.metrics:
            metric = metrics.get(earlier.metric)
            if earlier.value is None:
                continue
            # With a different key, the cell's options differ: it may request fewer metrics.
            if metric is None and row.key != before.key:
                self.uncompared["metrics of the baseline that this sweep did not request"] += 1
            elif metric is None or metric.value is None:
                error = f": {metric.error}" if metric and metric.error else ""
                text = f"no {earlier.metric} ({earlier.value:.6g} in the baseline){error}"
                self._add_regression(row, before, text)
            elif metric.count != earlier.count:
                self.uncompared["metrics on a different number of items, so not compared"] += 1
            elif metric.drop is None or earlier.drop is None:
                self.uncompared["metrics without PyTorch's value, so not compared"] += 1
            elif text := _describe_drop(metric, earlier, row.max_drop):
                self._add_regression(row, before, text)

    def _compare_speed(self, row: SweepRow, before: SweepRow) -> None:
        now, then = (side.speed.call if side.speed else None for side in (row, before))
        if then is None:
            return
        if now is None and row.key != before.key:
            self.uncompared["cells whose speed this sweep did not request"] += 1
        elif now is None:
            failure = f": {row.speed.failure}" if row.speed and row.speed.failure else ""
            text = f"not measured ({_format_call(then)} per call in the baseline){failure}"
            self._add_regression(row, before, text)
        elif not _is_same_machine(row, before):
            self.uncompared["cells measured on a different machine, so speed is not compared"] += 1
        elif row.speed and before.speed and _is_slower(row.speed, before.speed):
            ratio = human_number(now.median / then.median)
            text = (
                f"{_format_call(now)} per call, {_format_call(then)} in the baseline: {ratio}×"
                f"{_describe_load(row)}"
            )
            self._add_regression(row, before, text)


def _verdict_rank(row: SweepRow) -> int:
    return VERDICTS.index(row.verdict) if row.verdict in VERDICTS else len(VERDICTS)


def _describe_drop(metric: EvaluationRow, earlier: EvaluationRow, max_drop: float | None) -> str:
    """Describe a metric's drop since the earlier sweep; return an empty text if it is allowed."""
    assert metric.drop is not None
    assert earlier.drop is not None
    allowed = RELATIVE_DROP * abs(metric.reference or 0.0) if max_drop is None else max_drop
    limit = allowed * (1 + 1e-9) + 1e-12  # 0.96 - 0.95 is more than 0.01 in floating point
    dropped = metric.drop - earlier.drop
    # A small drop is a regression too if it exceeds the cell's limit for the first time.
    is_beyond = max_drop is not None and metric.drop > limit >= earlier.drop
    if dropped <= limit and not is_beyond:
        return ""
    now, then = (f"{row.value:.6g} ({row.reference:.6g} in PyTorch)" for row in (metric, earlier))
    return (
        f"{metric.metric} {now}, and {then} in the baseline: worse by {dropped:.6g}, "
        f"allowed: {allowed:.6g}{' below PyTorch' * is_beyond}"
    )


def _format_call(call: Latency) -> str:
    low, median, high = (human_seconds(time) for time in (call.low, call.median, call.high))
    return f"{median} ({low} – {high})"


def _is_same_machine(row: SweepRow, before: SweepRow) -> bool:
    """Return true if processor, cores and host are the same; an unknown host matches any host."""
    now, then = row.machine, before.machine
    if now is None or then is None or (row.host != before.host and row.host and before.host):
        return False
    return (now.processor, now.cores) == (then.processor, then.cores)


def _is_slower(now: BenchmarkRow, then: BenchmarkRow) -> bool:
    """Return true if calls are slower than before, by more than the scatter of both runs.

    The confidence intervals of the two runs must not overlap. The middle halves of the durations
    (25 to 75 %) must not overlap either.
    """
    assert now.call is not None
    assert then.call is not None
    # How far the measurement windows of each run disagree, as a factor.
    apart = [1 + row.agreement.apart if row.agreement else 1.0 for row in (now, then)]
    is_large = now.call.median >= MIN_SLOWDOWN * apart[0] * apart[1] * then.call.median
    has_quantiles = len(now.quantiles) == len(then.quantiles) == _QUANTILES
    halves_overlap = has_quantiles and now.quantiles[25] <= then.quantiles[75]
    return is_large and not halves_overlap and now.call.low > then.call.high


def _describe_load(row: SweepRow) -> str:
    machine = row.machine
    if machine is None or machine.load is None or not machine.is_busy:
        return ""
    return f"; the machine was busy: a load of {machine.load:.1f} on {machine.cores} cores"


def _list_causes(row: SweepRow, before: SweepRow) -> str:
    """Return a text with the versions and settings that changed since the earlier sweep."""
    causes = [
        f"{name} {now[name]} instead of {then[name]}"
        for now, then in ((row.versions, before.versions), _engine_variables(row, before))
        for name in sorted(now.keys() & then.keys())
        if now[name] != then[name]
    ]
    hosts = f" ({row.host}, {before.host} in the baseline)" if row.host != before.host else ""
    return f"; {', '.join(causes)}{hosts}" if causes else ""


def _engine_variables(row: SweepRow, before: SweepRow) -> tuple[dict[str, str], dict[str, str]]:
    if row.machine is None or before.machine is None:  # the worker died before it replied
        return {}, {}
    ours, theirs = row.machine.environment, before.machine.environment
    unset = dict.fromkeys(ours.keys() | theirs.keys(), "unset")
    return unset | ours, unset | theirs


def _list_labels(rows: Sequence[SweepRow]) -> str:
    shown = (row.label for row in rows[:_MAX_LABELS])
    more = f", and {len(rows) - _MAX_LABELS} more" if len(rows) > _MAX_LABELS else ""
    return f"{', '.join(shown)}{more}"
