"""The task of a cell, in a child process of some worker: deploy, measure, evaluate, tell."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from enginebay import DataSet, ExportOptions, VerifyOptions, get_backend, open_artifact
from enginebay.authors import call, find_model, fixed_seed, parse_inputs, shapes_of
from enginebay.commands import typed
from enginebay.environment import Tier
from enginebay.errors import (
    BackendUnavailableError,
    EnginebayError,
    ModelError,
    ModelSourceError,
    names_full_disk,
    one_line,
)
from enginebay_lab.comparison.compare_backends import compare
from enginebay_lab.evaluation.evaluate_artifacts import evaluate
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.machine import this_machine
from enginebay_lab.resources import host_name
from enginebay_lab.shared_params import own_params
from enginebay_lab.sweeps.backend_check import checked_environment, installed_versions
from enginebay_lab.sweeps.cell_files import check_files
from enginebay_lab.sweeps.cell_job import CellJob, encode
from enginebay_lab.sweeps.cell_speed import measured
from enginebay_lab.sweeps.faults import CellLostError, is_disk_error, lost, lost_to_disk, named
from enginebay_lab.sweeps.process_state import as_found, is_first_cell
from enginebay_lab.sweeps.sweep_rows import SweepRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from enginebay.authors import ModelSource, Shapes
    from enginebay_lab.sweeps.cells import Cell

_replace = msgspec.structs.replace


def run_cell(data: bytes) -> bytes:
    """Run a cell on this machine.

    It always returns a row: an error of the model or the engine is its reason, and whatever this
    machine lacks is its fault. Models with random weights have the same ones in every cell.

    Args:
        data: What :func:`~enginebay_lab.sweeps.job_builder.job_of` returns.

    Returns:
        What :func:`~enginebay_lab.sweeps.worker_replies.arrived` takes.
    """
    job = msgspec.msgpack.decode(data, type=CellJob)
    is_fresh = is_first_cell()
    try:
        return _run(job, is_fresh=is_fresh)
    except (ModelSourceError, ModelError):
        return _run_in_a_fresh_process(job)


def _run(job: CellJob, *, is_fresh: bool) -> bytes:
    """Run a cell in this process.

    Raises:
        ModelSourceError: The model's code raised, in a process that other cells have used.
        ModelError: Likewise, its forward.
    """
    try:
        with _folder(job) as (folder, is_shared), as_found(_code_folders(job)):
            with suppress(OSError):  # what is named by the cell and not seen here is its fault
                os.chdir(job.cell.folder)
            row = _row(job, folder, is_fresh=is_fresh)
            if row.artifact is None:
                shutil.rmtree(folder, ignore_errors=True)
            return _sent(job, row, is_shared=is_shared)
    except OSError as err:  # there is no place for a folder, or it was taken away
        return encode(lost_to_disk(_begun(job), host_name(), err))


def _run_in_a_fresh_process(job: CellJob) -> bytes:
    """Run a cell whose model may have failed over what earlier cells left in this process.

    ``torch.library.Library("mine", "DEF")`` can run once in a process, and a model's code may have
    changed torch itself.
    """
    function, limit = f"{__name__}:{run_cell.__name__}", job.cell.timeout
    try:
        return call(function, encode(job), timeout=limit, result_type=bytes)
    except EnginebayError as err:  # it crashed, or took too long
        return encode(_failed(_begun(job), err))


@contextmanager
def _folder(job: CellJob) -> Iterator[tuple[Path, bool]]:
    """Yield where the cell is built, and True if the client sees it too, and will move it."""
    if job.attempts and Path(job.attempts).is_dir():
        shared = Path(job.attempts, f"{job.cell.key}-{secrets.token_hex(4)}")
        try:
            shared.mkdir()
        except OSError:  # seen and not writable
            pass
        else:
            yield shared, True
            return
    with TemporaryDirectory(prefix="enginebay-cell-", ignore_cleanup_errors=True) as own:
        yield Path(own), False


def _begun(job: CellJob) -> SweepRow:
    """The row of a cell that has no result yet."""
    return _replace(
        SweepRow.of(job.cell, "failed"),
        files=job.files_digest,
        host=host_name(),
        machine=this_machine(),
    )


def _row(job: CellJob, folder: Path, *, is_fresh: bool) -> SweepRow:
    """The row of a cell, whatever happens to it; what its model raises, in a fresh process only."""
    row = _begun(job)
    try:
        row = _with_environment(row)
        _check_usable(row, job.cell.params)
        for files in job.files.values():
            check_files(files)
        with _same_weights():
            section = (job.config or {}).get("codebase_config")
            # Once for all that is done with it: some code runs once in a process.
            model = find_model(job.cell.model, section, _shapes(job.cell))
            row = _deployed(row, job, model, folder)
            row = measured(row, job.cell.seconds, job.cell.timeout)
            return _evaluated(row, job, model)
    except CellLostError as err:
        return lost(row, err.fault, str(err), err.hint or "")
    except Exception as err:  # whatever is raised is the cell's reason
        if not is_fresh and isinstance(err, ModelSourceError | ModelError) and err.__cause__:
            raise  # the model's code raised; without a cause it was not even run
        return _failed(row, err)


def _failed(row: SweepRow, err: Exception) -> SweepRow:
    """The row of a cell that raised: its reason, or the fault of a full disk."""
    if is_disk_error(err):
        return lost_to_disk(row, row.host, err)
    if isinstance(err, EnginebayError):
        return _replace(row, verdict="failed", reason=str(err), hint=err.hint or "")
    return _replace(row, verdict="failed", reason=one_line(err))


def _with_environment(row: SweepRow) -> SweepRow:
    """The row with what is installed here.

    Raises:
        CellLostError: The backend is not installed.
    """
    try:
        return _replace(
            row,
            environment=checked_environment(row.backend),
            versions=installed_versions(row.backend),
        )
    except BackendUnavailableError as err:
        raise CellLostError("backend", f"on {row.host}: {err}", hint=err.hint) from err


def _check_usable(row: SweepRow, params: Mapping[str, Any]) -> None:
    """Refuse to go on with a backend that its check found wanting.

    An engine that is built for other machines needs no device here.

    Raises:
        CellLostError: Names the check, and what to type.
    """
    assert row.environment is not None
    problem = row.environment.failed
    if problem and problem.tier in (Tier.DEVICE, Tier.SMOKE):
        backend = get_backend(row.backend)
        if backend.elsewhere(backend.params_from(own_params(backend, params))):
            return
    if problem:
        message = f"on {row.host} {row.backend} cannot be used: {problem.name}: {problem.found}"
        raise CellLostError("backend", message, hint=problem.fix)


def _code_folders(job: CellJob) -> set[Path]:
    """The folders of a cell and its files."""
    paths = (path for files in job.files.values() for path in files)
    return {Path(job.cell.folder), *(Path(path).parent for path in paths)}


def _shapes(cell: Cell) -> Shapes:
    """The shapes of the inputs, as far as the cell says them."""
    with suppress(EnginebayError):  # deploying says what is wrong with the parameters
        params = get_backend(cell.backend).params_from(cell.params)
        if params.input_shapes:
            return params.input_shapes
    return shapes_of(parse_inputs(cell.inputs))


def _data(job: CellJob) -> DataSet | None:
    return DataSet(job.data, job.cell.take, job.cell.seed) if job.data else None


def _given(cell: Cell, options: type[ExportOptions | VerifyOptions]) -> dict[str, Any]:
    """The options that a cell has, by their names, as far as it says them."""
    named = {name: getattr(cell, name, None) for name in options.__struct_fields__}
    return {name: value for name, value in named.items() if value not in (None, "")}


def _deployed(row: SweepRow, job: CellJob, model: ModelSource, folder: Path) -> SweepRow:
    """The row with the verdict and the artifact.

    Raises:
        EnginebayError: The model or the cell is wrong, or the disk is full.
    """
    cell = job.cell
    with typed(job.command):
        (found,) = compare(
            model,
            parse_inputs(cell.inputs) or None,
            work_dir=folder,
            backends=[cell.backend],
            precisions=[cell.precision] if cell.precision else (),
            params=cell.params,
            seconds=0,
            config=job.config,
            data=_data(job),
            export=ExportOptions(**_given(cell, ExportOptions)),
            verify=VerifyOptions(**_given(cell, VerifyOptions)),
        ).rows
    if found.verdict == "failed" and names_full_disk(found.reason):
        raise EnginebayError(found.reason)  # the row has no more of it
    row = _replace(row, **msgspec.structs.asdict(found))
    if row.artifact is None:
        return row
    artifact = open_artifact(row.artifact)
    return _replace(row, receipt=artifact.manifest.receipt, digest=artifact.digest)


def _evaluated(row: SweepRow, job: CellJob, model: ModelSource) -> SweepRow:
    """The row with the metrics of its artifact; an error that none survives is in each of them."""
    cell = job.cell
    if not cell.metrics or row.artifact is None:
        return row
    try:
        rows = evaluate(
            row.artifact,
            _data(job),
            list(cell.metrics),
            model=None if model.model is None else model,  # PyTorch runs no ONNX file
            timeout=cell.timeout,
        ).rows
    except EnginebayError as err:
        rows = tuple(
            EvaluationRow(artifact=row.artifact, backend=row.backend, metric=name, error=str(err))
            for name in cell.metrics
        )
    return _replace(row, metrics=rows)


def _same_weights() -> AbstractContextManager[None]:
    """A block in which random weights are the same each time, where there is torch."""
    return fixed_seed() if find_spec("torch") else nullcontext()


def _sent(job: CellJob, row: SweepRow, *, is_shared: bool) -> bytes:
    """The row as it is sent, with a note where the client does not see its artifact."""
    if row.artifact is not None and not is_shared:
        row = named(row, "")
        if job.attempts:
            note = (
                f"the artifact was not kept: {row.host} cannot write to '{job.output}'; name an "
                "--output on a file system that all workers see"
            )
            row = _replace(row, notes=(*row.notes, note))
    return encode(row)
