"""Building of a new artifact's manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.artifact.manifest import IRRecord, Manifest, PluginRecord
from enginebay.artifact.run_records import run_record

if TYPE_CHECKING:
    from enginebay.artifact.converted_engine import ConvertedEngine
    from enginebay.artifact.manifest import ComparatorRecord, Recipe
    from enginebay.data import DataRecord
    from enginebay.inference import Receipt
    from enginebay.verdict import Verification


def build_manifest(
    engine: ConvertedEngine,
    *,
    verification: Verification,
    receipt: Receipt | None = None,
    model: str = "",
    weights: str = "",
    reference_sha256: str = "",
    command: str = "",
    recipe: Recipe | None = None,
    data: DataRecord | None = None,
    task: dict[str, object] | None = None,
    comparators: tuple[ComparatorRecord, ...] = (),
) -> Manifest:
    """Build the manifest of a new artifact.

    Args:
        engine: The engine, whose files are relative to the artifact.
        verification: The verdict with the error metrics of the outputs.
        receipt: The engine's receipt; None if the engine did not run.
        model: A name of the model that is valid in any current folder; empty for a Python object.
        weights: Origin of the weights; empty if unknown.
        reference_sha256: SHA-256 of the weights of the reference; empty if unknown.
        command: The command that builds the artifact again.
        recipe: What the artifact was built from.
        data: The data set for calibration or, without calibration, for verification; None if no
            data set was used.
        task: The model's task as plain data; None if unknown.
        comparators: The comparators of outputs that are sets.
    """
    backend, ir, built_for = engine.backend, engine.ir, engine.built_for
    # This machine is one of the machines that the engine is built for: it gets a record as well.
    ran = bool(built_for and engine.runs_here and verification.reference)
    return Manifest(
        backend=backend.name,
        plugin=PluginRecord(backend.distribution, backend.distribution_version),
        engine_version=backend.get_version(),
        params=engine.portable_params,
        inputs=ir.inputs,
        outputs=ir.outputs,
        sizes=engine.sizes,
        model_files=tuple(file.as_posix() for file in engine.files),
        parts=engine.parts,
        data=data,
        kept=engine.kept,
        task=task,
        comparators=comparators,
        ir=IRRecord(
            kind=ir.kind, exporter=ir.exporter, opset=ir.opset, sha256=ir.digest(), notes=ir.notes
        ),
        receipt=receipt,
        verification=verification,
        model=model,
        weights=weights,
        reference_sha256=reference_sha256,
        command=command,
        recipe=recipe,
        pinned=backend.bound_to(engine.params),
        built_for=built_for.machines if built_for else "",
        runs=(run_record(backend, verification, receipt),) if ran else (),
    )
