"""Building of a new artifact's manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.artifact.manifest import IRRecord, Manifest, Part, PluginRecord
from enginebay.artifact.run_records import run_record

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.artifact.manifest import ComparatorRecord
    from enginebay.backend import Backend
    from enginebay.data import DataRecord
    from enginebay.inference import Receipt
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams
    from enginebay.verdict import Verification


def build_manifest(
    backend: Backend,
    ir: IRModel,
    params: BackendParams,
    files: tuple[Path, ...],
    *,
    verification: Verification,
    receipt: Receipt | None = None,
    model: str = "",
    weights: str = "",
    command: str = "",
    parts: tuple[Part, ...] = (),
    data: DataRecord | None = None,
    kept: tuple[str, ...] = (),
    task: dict[str, object] | None = None,
    comparators: tuple[ComparatorRecord, ...] = (),
) -> Manifest:
    """Build the manifest of a new artifact.

    Args:
        backend: The backend that wrote the engine's files.
        ir: The IR from which the engine was converted.
        params: The backend's parameters.
        files: The engine's files, relative to the artifact.
        verification: The verdict with the error metrics of the outputs.
        receipt: The engine's receipt; None if the engine did not run.
        model: A name of the model that is valid in any current folder; empty for a Python object.
        weights: Origin of the weights; empty if unknown.
        command: The command that builds the artifact again.
        parts: The parts of the model; empty if it was not cut.
        data: The data set for calibration or, without calibration, for verification; None if no
            data set was used.
        kept: Nodes that an 8-bit engine runs in floating point.
        task: The model's task as plain data; None if unknown.
        comparators: The comparators of outputs that are sets.
    """
    built_for = backend.built_for(params)
    # This machine is one of the machines that the engine is built for: it gets a record as well.
    ran = bool(built_for and not built_for.lacking and verification.reference)
    return Manifest(
        backend=backend.name,
        plugin=PluginRecord(backend.distribution, backend.distribution_version),
        engine_version=backend.get_version(),
        params=portable_params(params),
        inputs=ir.inputs,
        outputs=ir.outputs,
        model_files=tuple(file.as_posix() for file in files),
        parts=parts,
        data=data,
        kept=kept,
        task=task,
        comparators=comparators,
        ir=IRRecord(
            kind=ir.kind, exporter=ir.exporter, opset=ir.opset, sha256=ir.digest(), notes=ir.notes
        ),
        receipt=receipt,
        verification=verification,
        model=model,
        weights=weights,
        command=command,
        pinned=backend.bound_to(params),
        built_for=built_for.machines if built_for else "",
        runs=(run_record(backend, verification, receipt),) if ran else (),
    )


def portable_params(params: BackendParams) -> dict[str, object]:
    """Return the parameters as plain data without ``work_dir``, since an artifact can be moved."""
    return params.replace(work_dir=None).to_mapping()
