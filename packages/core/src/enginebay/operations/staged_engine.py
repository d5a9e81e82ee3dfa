"""A converted engine in its staging directory: it is judged there, and published from there."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from enginebay.artifact import SAMPLES_FILE, build_manifest, record_modules
from enginebay.ir import IR_FOLDER, find_scores
from enginebay.partition import SIMULATION_FOLDER
from enginebay.reference import judge_settled
from enginebay.tensors import save_samples

if TYPE_CHECKING:
    from enginebay.artifact import Artifact, ConvertedEngine, StagingDirectory
    from enginebay.reference import SettledVerdict
    from enginebay.verification import RecordedReference, Terms


def judge_staged(
    engine: ConvertedEngine,
    reference: RecordedReference,
    stage: StagingDirectory,
    terms: Terms,
    *,
    strict: bool = False,
) -> SettledVerdict:
    """Run an engine and compare its outputs with the reference's.

    Args:
        engine: The engine, whose files are in the staging directory.
        reference: The inputs, with the expected outputs.
        stage: The staging directory.
        terms: Tolerances, comparators and the time limit.
        strict: True to raise an error if the engine uses a fallback.
    """
    notes = None if engine.ir.exporter == "file" else engine.ir.notes
    scores = find_scores(engine.ir.path) if engine.ir.kind == "onnx" else ()
    recorded = reference.for_engine(notes, engine.ir.inputs, scores)
    # A simulation is never moved, and its files contain the path of the IR.
    location = stage.move_away() if engine.runs_here else nullcontext(stage.dir)
    with location as folder:
        return judge_settled(engine.load_request(folder, strict=strict), recorded, terms)


def publish_staged(
    engine: ConvertedEngine,
    verdict: SettledVerdict,
    stage: StagingDirectory,
    *,
    keep_ir: bool = False,
    **record: Any,
) -> Artifact:
    """Publish an engine as an artifact, with the samples on which it was judged.

    Args:
        engine: The engine, whose files are in the staging directory.
        verdict: The verdict on the engine.
        stage: The staging directory.
        keep_ir: True if the artifact contains the IR.
        **record: Further arguments of :func:`build_manifest`.
    """
    manifest = build_manifest(
        engine, verification=verdict.verification, receipt=verdict.receipt, **record
    )
    if verdict.samples:
        save_samples(stage.dir / SAMPLES_FILE, verdict.samples)
    # Before the IR is deleted, which is the only file that knows the modules.
    record_modules(stage.dir, engine.ir, engine.backend.name)
    for folder in (stage.dir, *(stage.dir / part.folder for part in engine.parts)):
        # The graph of an engine that cannot run here serves only its verification.
        shutil.rmtree(folder / SIMULATION_FOLDER, ignore_errors=True)
    # ignore_errors: a model file that needs no export has no such folder.
    if not keep_ir:
        shutil.rmtree(stage.dir / IR_FOLDER, ignore_errors=True)
    return stage.publish(manifest)
