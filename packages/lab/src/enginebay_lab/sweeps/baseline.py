"""What got worse since an earlier sweep: verdicts, metrics, speed, and cells that are gone."""

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

#: The verdicts from the best one to the worst one. A lost cell has none.
VERDICTS = ("verified", "unverified", "mismatched", "crashed", "failed")
#: The drop of a metric that passes where the cell names none, as a part of PyTorch's value.
DROP = 0.01
#: The slowdown that passes, besides what the windows of both runs lie apart. The interval of a run
#: says nothing of the next one: on a machine with other work it did not meet that of another run of
#: the same engine in 91 % of 1,560 pairs, whose calls took up to 1.4 times as long. By this rule no
#: pair was slower.
SLOWDOWN = 1.25
#: As many as a row of a benchmark has: from 0 % to 100 %.
_QUANTILES = 101
#: As many labels as a note names.
_NAMED = 3


def regressions(
    rows: Sequence[SweepRow], baseline: Sequence[SweepRow]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Compare the rows of a sweep with those of an earlier one, cell by cell.

    Worse is a verdict further down in :data:`VERDICTS`, a metric that dropped by more than the
    cell's ``max_drop``, or :data:`DROP`, calls on the same machine that take :data:`SLOWDOWN`
    times as long or longer, with intervals that do not meet, and whatever the baseline has and the
    sweep lacks: a cell, its result, a metric, its speed.

    Returns:
        A sentence for each regression, and the notes on what was not compared.
    """
    pairs = pair_rows(rows, baseline)
    comparison = _Comparison()
    for row, before in pairs.same:
        comparison.compare(row, before)
    for before in pairs.gone:
        comparison.worse.append(f"{before.label}: gone ({before.verdict} in the baseline)")
    notes = [f"{text}: {count}" for text, count in comparison.uncompared.items()]
    if pairs.new:
        notes.insert(0, f"cells that the baseline lacks: {_labels(pairs.new)}")
    return tuple(comparison.worse), tuple(notes)


def judged_cells(rows: Sequence[SweepRow], baseline: Sequence[SweepRow]) -> frozenset[str]:
    """Return the keys of the cells that have a result in the baseline to be compared with."""
    same = pair_rows(rows, baseline).same
    return frozenset(row.key for row, before in same if before.verdict != "lost")


class _Comparison:
    """The sentences so far.

    Attributes:
        worse: What got worse.
        uncompared: How many figures were not compared, by the reason.
    """

    def __init__(self) -> None:
        self.worse: list[str] = []
        self.uncompared: Counter[str] = Counter()

    def compare(self, row: SweepRow, before: SweepRow) -> None:
        """Compare two rows of a cell."""
        if before.verdict == "lost":
            self.uncompared["cells that were lost in the baseline, so not compared"] += 1
        elif row.verdict == "lost":
            self._add(row, before, f"lost ({before.verdict} in the baseline): {row.reason}")
        else:
            if _rank(row) > _rank(before):
                reason = f": {row.reason}" if row.reason else ""
                text = f"{row.verdict} ({before.verdict} in the baseline){reason}"
                self._add(row, before, text)
            if row.verdict not in ("crashed", "failed"):
                self._metrics(row, before)
                self._speed(row, before)

    def _add(self, row: SweepRow, before: SweepRow, text: str) -> None:
        self.worse.append(f"{row.label}: {text}{_causes(row, before)}")

    def _metrics(self, row: SweepRow, before: SweepRow) -> None:
        found = {metric.metric: metric for metric in row.metrics}
        for earlier in before.metrics:
            metric = found.get(earlier.metric)
            if earlier.value is None:
                continue
            if metric is None and row.key != before.key:
                self.uncompared["metrics of the baseline that were not requested"] += 1
            elif metric is None or metric.value is None:
                error = f": {metric.error}" if metric and metric.error else ""
                text = f"no {earlier.metric}, and {earlier.value:.6g} in the baseline{error}"
                self._add(row, before, text)
            elif metric.count != earlier.count:
                self.uncompared["metrics on another number of items, so not compared"] += 1
            elif metric.drop is None or earlier.drop is None:
                self.uncompared["metrics without PyTorch's value, so not compared"] += 1
            elif text := _drop(metric, earlier, row.max_drop):
                self._add(row, before, text)

    def _speed(self, row: SweepRow, before: SweepRow) -> None:
        now, then = (each.speed.call if each.speed else None for each in (row, before))
        if then is None:
            return
        if now is None and row.key != before.key:
            self.uncompared["cells whose speed was not requested"] += 1
        elif now is None:
            failure = f": {row.speed.failure}" if row.speed and row.speed.failure else ""
            text = f"not measured, and {_call(then)} a call in the baseline{failure}"
            self._add(row, before, text)
        elif not _same_machine(row, before):
            self.uncompared["cells measured on another machine, whose speed is not compared"] += 1
        elif row.speed and before.speed and _is_slower(row.speed, before.speed):
            ratio = human_number(now.median / then.median)
            text = f"{_call(now)} a call, and {_call(then)} in the baseline: {ratio}×"
            self._add(row, before, f"{text}{_busy(row)}")


def _rank(row: SweepRow) -> int:
    return VERDICTS.index(row.verdict) if row.verdict in VERDICTS else len(VERDICTS)


def _drop(metric: EvaluationRow, earlier: EvaluationRow, max_drop: float | None) -> str:
    """Describe how far a metric dropped; empty where it passes."""
    assert metric.drop is not None
    assert earlier.drop is not None
    allowed = DROP * abs(metric.reference or 0.0) if max_drop is None else max_drop
    limit = allowed * (1 + 1e-9) + 1e-12  # 0.96 - 0.95 is more than 0.01 in floating point
    dropped = metric.drop - earlier.drop
    is_beyond = max_drop is not None and metric.drop > limit >= earlier.drop
    if dropped <= limit and not is_beyond:
        return ""
    figures = [f"{each.value:.6g} ({each.reference:.6g} in PyTorch)" for each in (metric, earlier)]
    return (
        f"{metric.metric} {figures[0]}, and {figures[1]} in the baseline: worse by "
        f"{dropped:.6g}, where {allowed:.6g} {'below PyTorch ' * is_beyond}passes"
    )


def _call(call: Latency) -> str:
    low, median, high = (human_seconds(each) for each in (call.low, call.median, call.high))
    return f"{median} ({low} – {high})"


def _same_machine(row: SweepRow, before: SweepRow) -> bool:
    """True where processor, cores, and host where both are known, are the same."""
    one, other = row.machine, before.machine
    if one is None or other is None or (row.host != before.host and row.host and before.host):
        return False
    return (one.processor, one.cores) == (other.processor, other.cores)


def _is_slower(now: BenchmarkRow, then: BenchmarkRow) -> bool:
    """True where neither the intervals nor the middle halves of the calls meet, and by enough."""
    assert now.call is not None
    assert then.call is not None
    apart = [1 + row.agreement.apart if row.agreement else 1.0 for row in (now, then)]
    enough = now.call.median >= SLOWDOWN * apart[0] * apart[1] * then.call.median
    halves = len(now.quantiles) == len(then.quantiles) == _QUANTILES
    meet = halves and now.quantiles[25] <= then.quantiles[75]
    return enough and not meet and now.call.low > then.call.high


def _busy(row: SweepRow) -> str:
    machine = row.machine
    if machine is None or machine.load is None or not machine.is_busy:
        return ""
    return f"; the machine was busy: a load of {machine.load:.1f} on {machine.cores} cores"


def _causes(row: SweepRow, before: SweepRow) -> str:
    """What else differs between the two: versions, and variables that change engines' threads."""
    found = [
        f"{name} {now[name]} in place of {then[name]}"
        for now, then in ((row.versions, before.versions), _variables(row, before))
        for name in sorted(now.keys() & then.keys())
        if now[name] != then[name]
    ]
    hosts = f" ({row.host}, {before.host} in the baseline)" if row.host != before.host else ""
    return f"; {', '.join(found)}{hosts}" if found else ""


def _variables(row: SweepRow, before: SweepRow) -> tuple[dict[str, str], dict[str, str]]:
    if row.machine is None or before.machine is None:  # it died before it said anything
        return {}, {}
    ours, theirs = row.machine.environment, before.machine.environment
    unset = dict.fromkeys(ours.keys() | theirs.keys(), "unset")
    return unset | ours, unset | theirs


def _labels(rows: Sequence[SweepRow]) -> str:
    shown = (row.label for row in rows[:_NAMED])
    more = f", and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"{', '.join(shown)}{more}"
