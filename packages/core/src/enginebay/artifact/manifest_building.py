"""The manifest of an artifact that is about to be published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.artifact.manifest import IRRecord, Manifest, Part, PluginRecord
from enginebay.artifact.runs import run_record

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
    task: dict[str, Any] | None = None,
    comparators: tuple[ComparatorRecord, ...] = (),
) -> Manifest:
    """Describe an engine's files: what made them, from which IR, and how they were verified.

    Args:
        backend: The backend that wrote them.
        ir: What it converted.
        params: The parameters it was given.
        files: The engine's files, relative to the artifact.
        verification: The verdict with its figures.
        receipt: What the engine says that it ran; None where it did not run.
        model: What leads to the model from any folder; empty where it is a Python object.
        weights: Where its weights come from; empty where nobody said.
        command: The command that makes the artifact again.
        parts: The engines that the files belong to, where there are several.
        data: What it was calibrated with, or verified on besides its example.
        kept: Nodes that an 8-bit engine has in floating point.
        task: The record of what the model is for.
        comparators: What compares outputs that are sets.
    """
    built_for = backend.built_for(params)
    # Here it ran as well as it will on the others: their verdicts do not replace this one.
    ran = bool(built_for and not built_for.lacking and verification.reference)
    return Manifest(
        backend=backend.name,
        plugin=PluginRecord(backend.distribution, backend.distribution_version),
        engine_version=backend.get_version(),
        params=portable(params),
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


def portable(params: BackendParams) -> dict[str, Any]:
    """The parameters as plain data, without the folder, which may be moved."""
    return params.replace(work_dir=None).to_mapping()
