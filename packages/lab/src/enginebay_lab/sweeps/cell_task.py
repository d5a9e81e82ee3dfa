"""Runs one sweep cell (one model, backend and precision) in a child process of a worker.

The model is deployed; then the artifact's speed is measured, and its metrics are evaluated.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from enginebay import DataSet, ExportOptions, VerifyOptions, deploy, get_backend
from enginebay.authors.arrays import parse_inputs
from enginebay.authors.sources import find_model, fixed_seed, shapes_of
from enginebay.commands import typed
from enginebay.environment import Tier
from enginebay.errors import BackendUnavailableError, EnginebayError, one_line
from enginebay_lab.comparison.compare_backends import default_precision
from enginebay_lab.evaluation.evaluate_artifacts import evaluate
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.machine import this_machine
from enginebay_lab.resources import host_name
from enginebay_lab.shared_params import own_params
from enginebay_lab.sweeps.backend_check import check_backend, list_versions
from enginebay_lab.sweeps.cell_files import check_files
from enginebay_lab.sweeps.cell_job import CellJob, encode_message
from enginebay_lab.sweeps.cell_speed import measure_speed
from enginebay_lab.sweeps.faults import (
    CellLostError,
    disk_fault_row,
    is_disk_error,
    lost_row,
    rename_artifact,
)
from enginebay_lab.sweeps.sweep_rows import SweepRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from enginebay.authors.arrays import Shapes
    from enginebay.authors.sources import ModelSource
    from enginebay_lab.sweeps.cells import Cell

_replace = msgspec.structs.replace


def run_cell(data: bytes) -> bytes:
    """Run a sweep cell (one model, backend and precision), and return its encoded result row.

    The row also records errors. Models with random weights have the same weights in every cell.

    Args:
        data: The result of :func:`~enginebay_lab.sweeps.job_builder.build_job`.

    Returns:
        The reply for :func:`~enginebay_lab.sweeps.worker_replies.receive_row`.
    """
    job = msgspec.msgpack.decode(data, type=CellJob)
    try:
        with _make_cell_folder(job) as (folder, is_shared):
            with suppress(OSError):  # a missing folder makes the files in it missing, a fault
                os.chdir(job.cell.folder)
            row = _make_row(job, folder)
            if row.artifact is None:
                shutil.rmtree(folder, ignore_errors=True)
            return _encode_row(job, row, is_shared=is_shared)
    except OSError as err:  # the folder could not be made, or was removed
        return encode_message(disk_fault_row(_start_row(job), host_name(), err))


@contextmanager
def _make_cell_folder(job: CellJob) -> Iterator[tuple[Path, bool]]:
    """Make a folder for the artifact of a sweep cell.

    Yield its path, and True if the process that runs the sweep can read the folder. Otherwise the
    folder is temporary, and is removed after the ``with`` block.
    """
    if job.attempts and Path(job.attempts).is_dir():
        shared = Path(job.attempts, f"{job.cell.key}-{secrets.token_hex(4)}")
        try:
            shared.mkdir()
        except OSError:  # readable, but not writable
            pass
        else:
            yield shared, True
            return
    with TemporaryDirectory(prefix="enginebay-cell-", ignore_cleanup_errors=True) as local:
        yield Path(local), False


def _start_row(job: CellJob) -> SweepRow:
    """Return a sweep cell's row before the first step, with ``failed`` as the initial verdict."""
    return _replace(
        SweepRow.of(job.cell, "failed"),
        files=job.files_digest,
        host=host_name(),
        machine=this_machine(),
    )


def _make_row(job: CellJob, folder: Path) -> SweepRow:
    """Run one sweep cell, and return its result row, which also records errors."""
    row = _start_row(job)
    try:
        row = _add_environment(row)
        _check_usable(row, job.cell.params)
        for files in job.files.values():
            check_files(files)
        with _fixed_weights():
            section = (job.config or {}).get("codebase_config")
            # Found once for all steps: some models' code can run only once in a process.
            model = find_model(job.cell.model, section, _input_shapes(job.cell))
            row = _add_deployment(row, job, model, folder)
            row = measure_speed(row, job.cell.duration, job.cell.timeout)
            return _add_metrics(row, job, model)
    except CellLostError as err:
        return lost_row(row, err.fault, str(err), err.hint or "")
    except Exception as err:  # noqa: BLE001  # any error is the cell's reason
        return _failed_row(row, err)


def _failed_row(row: SweepRow, err: Exception) -> SweepRow:
    if is_disk_error(err):
        return disk_fault_row(row, row.host, err)
    if isinstance(err, EnginebayError):
        return row.with_error(err)
    return _replace(row, verdict="failed", reason=one_line(err))


def _add_environment(row: SweepRow) -> SweepRow:
    """Return the row with the package versions and ``check-env`` results of its backend.

    Raises:
        CellLostError: The backend is not installed.
    """
    try:
        return _replace(
            row,
            environment=check_backend(row.backend),
            versions=list_versions(row.backend),
        )
    except BackendUnavailableError as err:
        raise CellLostError("backend", f"on {row.host}: {err}", hint=err.hint) from err


def _check_usable(row: SweepRow, params: Mapping[str, object]) -> None:
    """Check that the row's backend can be used on this machine.

    Raises:
        CellLostError: A check of the backend failed.
    """
    assert row.environment is not None
    problem = row.environment.failed
    if problem and problem.tier in (Tier.DEVICE, Tier.SMOKE):
        # An engine that is built for other machines needs no device here.
        backend = get_backend(row.backend)
        if backend.elsewhere(backend.params_from(own_params(backend, params))):
            return
    if problem:
        message = f"on {row.host} {row.backend} cannot be used: {problem.name}: {problem.found}"
        raise CellLostError("backend", message, hint=problem.fix)


def _input_shapes(cell: Cell) -> Shapes:
    """Return the input shapes in a sweep cell's backend parameters, else in its example inputs."""
    with suppress(EnginebayError):  # deploying reports wrong parameters
        params = get_backend(cell.backend).params_from(cell.params)
        if params.input_shapes:
            return params.input_shapes
    return shapes_of(parse_inputs(cell.inputs))


def _data_set(job: CellJob) -> DataSet | None:
    return DataSet(job.data, job.cell.take, job.cell.seed) if job.data else None


def _cell_options(cell: Cell, options: type[ExportOptions | VerifyOptions]) -> dict[str, Any]:
    """Return the fields of ``options`` that a sweep cell specifies, as a dict by field name."""
    values = {name: getattr(cell, name, None) for name in options.__struct_fields__}
    return {name: value for name, value in values.items() if value not in (None, "")}


def _add_deployment(row: SweepRow, job: CellJob, model: ModelSource, folder: Path) -> SweepRow:
    """Deploy the model, and return the row with the verdict and the artifact.

    Raises:
        EnginebayError: The disk is full.
    """
    cell, start = job.cell, time.perf_counter()
    try:
        with typed(job.command):
            deployment = deploy(
                model,
                parse_inputs(cell.inputs) or None,
                backend=cell.backend,
                precision=cell.precision or None,
                params=cell.params,
                work_dir=folder / cell.backend,
                config=job.config,
                data=_data_set(job),
                export=ExportOptions(**_cell_options(cell, ExportOptions)),
                verify=VerifyOptions(**_cell_options(cell, VerifyOptions)),
            )
    except EnginebayError as err:
        if is_disk_error(err):
            raise
        precision = cell.precision or default_precision(cell.backend, cell.params)
        row = _replace(row.with_error(err), precision=precision)
    else:
        row = _replace(row.with_deployment(deployment), digest=deployment.artifact.digest)
    return _replace(row, seconds=time.perf_counter() - start)


def _add_metrics(row: SweepRow, job: CellJob, model: ModelSource) -> SweepRow:
    """Evaluate the row's artifact, and return the row with its metrics or with the error."""
    cell = job.cell
    if not cell.metrics or row.artifact is None:
        return row
    try:
        rows = evaluate(
            row.artifact,
            _data_set(job),
            list(cell.metrics),
            model=None if model.model is None else model,  # an ONNX file, which PyTorch cannot run
            timeout=cell.timeout,
        ).rows
    except EnginebayError as err:
        rows = tuple(
            EvaluationRow(artifact=row.artifact, backend=row.backend, metric=name, error=str(err))
            for name in cell.metrics
        )
    return _replace(row, metrics=rows)


def _fixed_weights() -> AbstractContextManager[None]:
    """Return a context manager with a fixed random seed; without torch, it does nothing."""
    return fixed_seed() if find_spec("torch") else nullcontext()


def _encode_row(job: CellJob, row: SweepRow, *, is_shared: bool) -> bytes:
    """Return the encoded row, without an artifact whose folder no other machine can read."""
    if row.artifact is not None and not is_shared:
        row = rename_artifact(row, "")
        if job.attempts:
            note = (
                f"the artifact was not saved: {row.host} cannot write to '{job.output}'; name an "
                "--output on a file system that all workers share"
            )
            row = _replace(row, notes=(*row.notes, note))
    return encode_message(row)
