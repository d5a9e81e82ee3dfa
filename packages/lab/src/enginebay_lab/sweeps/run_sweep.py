"""``sweep``: deploy many models on many backends, each combination as a task of an executor."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import Steps
from enginebay.errors import EnginebayError, Hint, UsageError, argument
from enginebay_lab.executors.local import local_executor
from enginebay_lab.executors.task_runner import check_executor, run_tasks
from enginebay_lab.executors.tasks import ExecutorTask
from enginebay_lab.sweeps.baseline import find_judged_cells, find_regressions
from enginebay_lab.sweeps.faults import lost_row
from enginebay_lab.sweeps.job_builder import attempts_folder, build_job, digest_cell_files
from enginebay_lab.sweeps.read_cells import read_cells
from enginebay_lab.sweeps.rows_file import ROWS_FILE, RowsFile, read_rows
from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow
from enginebay_lab.sweeps.worker_replies import receive_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from enginebay.authors import Step
    from enginebay_lab.executors.tasks import TaskOutcome
    from enginebay_lab.sweeps.cells import Cell

#: The function that runs a cell, in a child process of a worker.
FUNCTION = "enginebay_lab.sweeps.cell_process:run_in_new_process"


def sweep(
    cells: str | PathLike[str] | Mapping[str, object] | Sequence[Cell | Mapping[str, object]],
    executor: Executor | None = None,
    *,
    output: str | Path | None = None,
    resume: bool = False,
    baseline: str | Path | Sequence[SweepRow] | None = None,
    watch: Callable[[Step], None] | None = None,
    command: str = "",
) -> Sweep:
    """Deploy many models on many backends, each combination as a task of an executor.

    A combination (one model on one backend at one precision) is a cell of the sweep, and has
    exactly one row. A worker runs each cell in a child process: if a model crashes or hangs, only
    its row is affected. If a worker dies, does not have the backend or has a different version, the
    row records this.

    Args:
        cells: The path of a sweep's file, a mapping of the same structure, or a sequence of
            :class:`enginebay_lab.Cell` or of mappings with its fields, as in
            ``docs/how-to/sweep.md``.
        executor: Any ``concurrent.futures.Executor``, such as a ``ProcessPoolExecutor`` or
            ``distributed.Client(…).get_executor(pure=False)``; the caller closes it. By default,
            cells run on this machine: as many at once as its cores and memory allow, or one after
            the other if speed is measured.
        output: The folder of the artifacts and of ``rows.jsonl``, to which each row is written as
            soon as its cell has ended; None to delete the artifacts.
        resume: Continue with the rows in the folder: run only cells that have no row, whose
            machine failed, or whose files have changed.
        baseline: The rows of an earlier sweep, or the path of their file. The result then lists the
            regressions since that sweep.
        watch: Called with the step ``sweep`` when it starts, when its detail changes, and when it
            ends.
        command: The command that repeats the sweep; the result contains it.

    Returns:
        A row for each cell, in the order of the cells.

    Raises:
        ConfigError: A cell is wrong; the message names the file and the key.
        UsageError: ``executor`` is not an executor, the folder has rows already, another sweep
            writes to the folder, or the baseline is not a file with rows.
        EnginebayError: The disk is full. Rows that were written stay.

    Example:
        >>> import enginebay as eb
        >>> swept = lab.sweep("sweep.toml", output="release-7")  # doctest: +SKIP
        >>> [row.label for row in swept.rows if row.verdict != "verified"]  # doctest: +SKIP
        ['net.py:build on ncnn fp16']
    """
    check_executor(executor)
    listed = read_cells(cells)
    earlier = read_rows(baseline) if isinstance(baseline, str | PathLike) else baseline
    if resume and output is None:
        raise UsageError(
            "resume requires the folder of an earlier sweep",
            hint=Hint("name the folder: {}", argument("output", "FOLDER")),
        )
    folder = None if output is None else Path(output)
    with ExitStack() as stack:
        rows: dict[str, SweepRow] = {}
        file = None
        if folder is not None:
            is_stale = partial(_is_stale, {cell.key: cell for cell in listed})
            rows_file = RowsFile(folder / ROWS_FILE, resume=resume, is_stale=is_stale)
            file = stack.enter_context(rows_file)
            rows.update(file.rows)
        progress = _SweepProgress(listed, rows, stack.enter_context(Steps(watch)("sweep")))
        missing = [cell for cell in listed if cell.key not in rows]
        for row in _run_cells(missing, folder, executor, progress):
            if file is not None:
                file.append(row)
            rows[row.key] = row
            progress.end_cell(row)
    swept = tuple(rows[cell.key] for cell in listed)
    result = Sweep(rows=swept, notes=tuple(_version_notes(swept)), command=command)
    if earlier is None:
        return result
    worse, notes = find_regressions(swept, earlier)
    return msgspec.structs.replace(
        result,
        regressions=worse,
        judged=find_judged_cells(swept, earlier),
        notes=(*notes, *result.notes),
    )


def _is_stale(cells: Mapping[str, Cell], row: SweepRow) -> bool:
    """Return true if the row's cell is in this sweep, and the cell's files have changed."""
    if row.key not in cells:
        return False
    try:
        return digest_cell_files(cells[row.key]) != row.files
    except EnginebayError:  # running the cell again reports the error
        return True


def _version_notes(rows: Sequence[SweepRow]) -> Iterator[str]:
    """Yield a note for each package that has different versions on different machines."""
    hosts: dict[str, dict[str, dict[str, None]]] = {}
    for row in rows:
        for name, version in row.versions.items():
            hosts.setdefault(name, {}).setdefault(version, {})[row.host] = None
    for name, versions in hosts.items():
        if len(versions) > 1:
            listed = (f"{version} on {', '.join(on)}" for version, on in versions.items())
            yield f"{name} is {' and '.join(listed)}"


def _run_cells(
    cells: Sequence[Cell], folder: Path | None, executor: Executor | None, progress: _SweepProgress
) -> Iterator[SweepRow]:
    if not cells:
        return
    by_key = {cell.key: cell for cell in cells}
    # Other cells at the same time would slow down the calls that are measured.
    workers = 1 if any(cell.duration for cell in cells) else None
    with (
        attempts_folder(folder) if folder is not None else nullcontext("") as token,
        local_executor(workers) if executor is None else nullcontext(executor) as used,
    ):
        unsent: list[SweepRow] = []
        tasks = _make_tasks(cells, folder, token, unsent)
        for outcome in run_tasks(tasks, used, on_begin=progress.begin_cell):
            yield _outcome_row(by_key[outcome.key], outcome, folder)
        # Only now: _make_tasks() fills this list while run_tasks() reads the tasks.
        yield from unsent


def _make_tasks(
    cells: Sequence[Cell], folder: Path | None, token: str, unsent: list[SweepRow]
) -> Iterator[ExecutorTask]:
    """Yield a task for each sweep cell; if its files are unreadable, add its row to ``unsent``."""
    for cell in cells:
        try:
            job = build_job(cell, folder, token)
        except EnginebayError as err:
            row = SweepRow.of(cell, "failed")
            unsent.append(msgspec.structs.replace(row, reason=str(err), hint=err.hint or ""))
        else:
            yield ExecutorTask(cell.key, FUNCTION, job, cell.timeout)


def _outcome_row(cell: Cell, outcome: TaskOutcome, folder: Path | None) -> SweepRow:
    replace = msgspec.structs.replace
    if outcome.value is None:
        assert outcome.fault is not None
        fault = outcome.fault
        row = lost_row(SweepRow.of(cell, "lost"), fault.kind, fault.reason, fault.hint)
        row = replace(row, seconds=outcome.seconds)
    else:
        row = receive_row(cell, outcome.value, folder)
    return replace(row, host=outcome.host or row.host, attempts=outcome.attempts)


class _SweepProgress:
    """Counts the sweep cells that have ended, and passes the counts to the caller as text.

    Args:
        cells: All cells of the sweep (one model, backend and precision each).
        rows: The rows of an earlier run, by key.
        set_detail: Called with the text after each change.
    """

    def __init__(
        self, cells: Sequence[Cell], rows: Mapping[str, SweepRow], set_detail: Callable[[str], None]
    ) -> None:
        self._total = len(cells)
        self._running: set[str] = set()
        self._ended = 0
        self._not_verified = 0
        self._set_detail = set_detail
        for cell in cells:
            if cell.key in rows:
                self.end_cell(rows[cell.key])

    def begin_cell(self, key: str, host: str) -> None:  # noqa: ARG002  # as run_tasks calls it
        """Count a sweep cell that a worker has begun; only some executors report this."""
        self._running.add(key)
        self._show_counts()

    def end_cell(self, row: SweepRow) -> None:
        """Count the sweep cell to which a finished row belongs."""
        self._running.discard(row.key)
        self._ended += 1
        self._not_verified += row.verdict != "verified"
        self._show_counts()

    def _show_counts(self) -> None:
        text = f"{self._ended} of {self._total} cells"
        text += f", {self._not_verified} not verified" if self._not_verified else ""
        self._set_detail(text + (f", {len(self._running)} running" if self._running else ""))
