"""``sweep``: many models on many backends, each cell a task for an executor."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.authors import Steps
from enginebay.errors import EnginebayError, UsageError
from enginebay_lab.executors.local import local_executor
from enginebay_lab.executors.running import check_executor, run_tasks
from enginebay_lab.executors.tasks import Task
from enginebay_lab.sweeps.baseline import judged_cells, regressions
from enginebay_lab.sweeps.faults import lost
from enginebay_lab.sweeps.job_builder import attempts, files_digest, job_of
from enginebay_lab.sweeps.read_cells import read_cells
from enginebay_lab.sweeps.rows_file import ROWS_FILE, RowsFile, read_rows
from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow
from enginebay_lab.sweeps.worker_replies import arrived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from enginebay.authors import Step
    from enginebay_lab.executors.tasks import Outcome
    from enginebay_lab.sweeps.cells import Cell

#: What runs a cell, in a child process of some worker.
FUNCTION = "enginebay_lab.sweeps.cell_task:run_cell"


def sweep(
    cells: Any,
    executor: Executor | None = None,
    *,
    output: str | Path | None = None,
    resume: bool = False,
    baseline: str | Path | Sequence[SweepRow] | None = None,
    watch: Callable[[Step], None] | None = None,
    command: str = "",
) -> Sweep:
    """Deploy many models on many backends, each cell on some worker of an executor.

    A cell is data in, a row out. It runs in a child process of its worker: a model that crashes or
    hangs costs its own row, and a worker that dies, lacks the backend or has another version is a
    row that says so. A cell has one row, whatever becomes of its workers.

    Args:
        cells: The path of a sweep's file, a mapping of the same shape, or a sequence of
            :class:`enginebay_lab.Cell` or of mappings with its fields. See ``docs/sweep.md``.
        executor: Any ``concurrent.futures.Executor``, such as a ``ProcessPoolExecutor`` or
            ``distributed.Client(…).get_executor(pure=False)``; it is left open. By default this
            machine: as many cells at once as it has cores and memory for, or one after the other
            where artifacts are measured.
        output: The folder of the artifacts and of ``rows.jsonl``, which has each row as soon as
            its cell has ended; by default artifacts are dropped.
        resume: Go on with the rows in the folder: only cells without a row are run, and those that
            were lost with their machine or whose files have changed.
        baseline: The rows of an earlier sweep, or the path of their file: the result says what is
            worse than there.
        watch: Called with the step ``sweep`` when it starts, when its detail changes, and when it
            ends.
        command: What to type to sweep again.

    Returns:
        A row for each cell, in the order of the cells.

    Raises:
        ConfigError: The cells are wrong; the message names the file and the key.
        UsageError: The executor is none, the folder has rows already, another sweep writes to it,
            or the baseline is no file with rows.
        EnginebayError: The disk is full. Rows that were written stay.

    Example:
        >>> import enginebay as eb
        >>> found = lab.sweep("sweep.toml", output="release-7")  # doctest: +SKIP
        >>> [row.label for row in found.rows if row.verdict != "verified"]  # doctest: +SKIP
        ['net.py:build on ncnn fp16']
    """
    check_executor(executor)
    listed = read_cells(cells)
    earlier = read_rows(baseline) if isinstance(baseline, str | PathLike) else baseline
    if resume and output is None:
        raise UsageError("nothing to resume", hint="name the folder: --output FOLDER")
    folder = None if output is None else Path(output)
    with ExitStack() as stack:
        rows: dict[str, SweepRow] = {}
        file = None
        if folder is not None:
            is_stale = partial(_is_stale, {cell.key: cell for cell in listed})
            rows_file = RowsFile(folder / ROWS_FILE, resume=resume, is_stale=is_stale)
            file = stack.enter_context(rows_file)
            rows.update(file.rows)
        counting = _Counting(listed, rows, stack.enter_context(Steps(watch)("sweep")))
        left = [cell for cell in listed if cell.key not in rows]
        for row in _run(left, folder, executor, counting):
            if file is not None:
                file.append(row)
            rows[row.key] = row
            counting.ended(row)
    found = tuple(rows[cell.key] for cell in listed)
    result = Sweep(rows=found, notes=tuple(_version_notes(found)), command=command)
    if earlier is None:
        return result
    worse, notes = regressions(found, earlier)
    return msgspec.structs.replace(
        result,
        regressions=worse,
        judged=judged_cells(found, earlier),
        notes=(*notes, *result.notes),
    )


def _is_stale(cells: Mapping[str, Cell], row: SweepRow) -> bool:
    """True if a row's cell is in this sweep, and its files are others than when it ran."""
    if row.key not in cells:
        return False
    try:
        return files_digest(cells[row.key]) != row.files
    except EnginebayError:  # running it again says what is wrong with them
        return True


def _version_notes(rows: Sequence[SweepRow]) -> Iterator[str]:
    """Each distribution that machines have in different versions."""
    hosts: dict[str, dict[str, dict[str, None]]] = {}
    for row in rows:
        for name, version in row.versions.items():
            hosts.setdefault(name, {}).setdefault(version, {})[row.host] = None
    for name, versions in hosts.items():
        if len(versions) > 1:
            listed = (f"{version} on {', '.join(on)}" for version, on in versions.items())
            yield f"{name} is {' and '.join(listed)}"


def _run(
    cells: Sequence[Cell], folder: Path | None, executor: Executor | None, counting: _Counting
) -> Iterator[SweepRow]:
    if not cells:
        return
    by_key = {cell.key: cell for cell in cells}
    workers = 1 if any(cell.seconds for cell in cells) else None
    with (
        attempts(folder) if folder is not None else nullcontext("") as token,
        local_executor(workers) if executor is None else nullcontext(executor) as used,
    ):
        unsent: list[SweepRow] = []
        tasks = _tasks(cells, folder, token, unsent)
        for outcome in run_tasks(tasks, used, on_begin=counting.began):
            yield _row(by_key[outcome.key], outcome, folder)
        yield from unsent


def _tasks(
    cells: Sequence[Cell], folder: Path | None, token: str, unsent: list[SweepRow]
) -> Iterator[Task]:
    """The tasks of the cells; a cell whose files are gone by now becomes a row at once."""
    for cell in cells:
        try:
            job = job_of(cell, folder, token)
        except EnginebayError as err:
            row = SweepRow.of(cell, "failed")
            unsent.append(msgspec.structs.replace(row, reason=str(err), hint=err.hint or ""))
        else:
            yield Task(cell.key, FUNCTION, job, cell.timeout)


def _row(cell: Cell, outcome: Outcome, folder: Path | None) -> SweepRow:
    """The row of a cell that has ended, however it did."""
    replace = msgspec.structs.replace
    if outcome.value is None:
        assert outcome.fault is not None
        fault = outcome.fault
        row = lost(SweepRow.of(cell, "lost"), fault.kind, fault.reason, fault.hint)
        row = replace(row, seconds=outcome.seconds)
    else:
        row = arrived(cell, outcome.value, folder)
    return replace(row, host=outcome.host or row.host, attempts=outcome.attempts)


class _Counting:
    """How many cells have ended, as a caller sees it while the sweep runs.

    Args:
        cells: All cells.
        rows: Those that an earlier run has ended.
        set_detail: Called with the text.
    """

    def __init__(
        self, cells: Sequence[Cell], rows: Mapping[str, SweepRow], set_detail: Callable[[str], None]
    ) -> None:
        self._total = len(cells)
        self._begun: set[str] = set()
        self._ended = 0
        self._wrong = 0
        self._set_detail = set_detail
        for cell in cells:
            if cell.key in rows:
                self.ended(rows[cell.key])

    def began(self, key: str, host: str) -> None:  # noqa: ARG002  # as run_tasks calls it
        """A worker begins with a cell, where the executor can say so."""
        self._begun.add(key)
        self._show()

    def ended(self, row: SweepRow) -> None:
        """A cell has its row."""
        self._begun.discard(row.key)
        self._ended += 1
        self._wrong += row.verdict != "verified"
        self._show()

    def _show(self) -> None:
        text = f"{self._ended} of {self._total} cells"
        text += f", {self._wrong} not verified" if self._wrong else ""
        self._set_detail(text + (f", {len(self._begun)} at work" if self._begun else ""))
