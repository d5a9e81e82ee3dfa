"""Building of an engine: the export of a model to an IR, and the conversion of the IR."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

from enginebay.errors import (
    ConversionError,
    EnginebayError,
    ExportError,
    ParamsError,
    UsageError,
    disk_error,
)
from enginebay.exporters import write_ir
from enginebay.hooks import ConvertRequest
from enginebay.ir import IR_FOLDER, SUFFIXES
from enginebay.operations.convert_engine import convert_engine
from enginebay.operations.lowering import Lowering
from enginebay.operations.rewrite_model import export_patch
from enginebay.operations.rewriter_sets import target_of
from enginebay.partition import mark_nodes, split
from enginebay.rewriting import join_reports

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.artifact import ConvertedEngine
    from enginebay.ir import IRModel
    from enginebay.models import BoundModel
    from enginebay.operations.preparation import PreparedModel
    from enginebay.operations.settings import Settings
    from enginebay.operations.steps import Steps
    from enginebay.params import IRKind
    from enginebay.rewriting import RewriteReport
    from enginebay.sources import ModelSource


class BuiltEngine(NamedTuple):
    """The result of :func:`build_engine`.

    Attributes:
        engine: The engine, before its verification.
        rewriting: The report of the rewriters; None for a model file that needs no export.
        notes: For each IR that was tried before, the reason why it was not used; then the
            exporter's and the converter's notes.
    """

    engine: ConvertedEngine
    rewriting: RewriteReport | None
    notes: tuple[str, ...] = ()


def build_engine(
    settings: Settings, prepared: PreparedModel, folder: Path, steps: Steps
) -> BuiltEngine:
    """Build an engine from the first of the backend's IRs whose export and conversion succeed.

    Args:
        settings: The backend, its parameters, and the options of export and verification.
        prepared: The model, bound to its example inputs, with its reference outputs and data.
        folder: The folder for the engine's files.
        steps: The recorder of the deployment's steps.

    Raises:
        ExportError: There is only one IR to try, and its export failed.
        ConversionError: There is only one IR to try, and its conversion failed; or there are
            several IRs, and all failed.
        ChildTimeoutError: A conversion exceeded its time limit; no other IR was tried.
    """
    failures: dict[IRKind, EnginebayError] = {}
    for kind in _choose_irs(settings, prepared.model.source):
        try:
            built = _build_from_ir(settings, prepared, folder, steps, kind)
        except (ExportError, ConversionError, ParamsError) as err:
            # A parameter for another IR must not hide why that IR failed.
            if isinstance(err, ParamsError) and not failures:
                raise
            if full := disk_error(err):
                raise full from err  # no other IR would help; staging names the disk
            failures[kind] = err
            # The files of a failed converter would otherwise become part of the artifact.
            _clear_folder(folder)
        else:
            notes = (f"{failed} was not used: {err}" for failed, err in failures.items())
            return built._replace(notes=(*notes, *built.engine.ir.notes, *built.engine.notes))
    if len(failures) == 1:
        raise next(iter(failures.values()))
    reasons = "; ".join(f"{kind}: {err}" for kind, err in failures.items())
    # The hints for the IRs that came furthest; that of another export, or to an IR that failed as
    # well, leads nowhere.
    furthest = [err for err in failures.values() if isinstance(err, ConversionError)]
    hints = [err.hint for err in furthest or failures.values() if err.hint]
    named = [hint for hint in hints if not any(f"--ir {kind}" in hint for kind in failures)]
    raise ConversionError(
        f"backend '{settings.backend.name}' could not convert the model with any IR: {reasons}",
        hint="; or ".join(dict.fromkeys(named)) or None,
    ) from ExceptionGroup("every IR failed", list(failures.values()))


def _choose_irs(settings: Settings, source: ModelSource) -> tuple[IRKind, ...]:
    kinds: tuple[IRKind, ...] = (
        (settings.export.ir,) if settings.export.ir else settings.backend.info.irs
    )
    if source.model is None:  # an ONNX file cannot be exported to other IRs
        kinds = tuple(kind for kind in kinds if kind == "onnx") or kinds[:1]
    cuts = settings.export.cuts
    if not cuts:
        return kinds
    if "onnx" not in kinds:
        raise UsageError(
            f"only an ONNX graph can be cut, but the IR of this deployment is {', '.join(kinds)}",
            hint="leave out the cuts, or choose ir='onnx' and a backend that accepts ONNX",
        )
    return ("onnx",)


def _build_from_ir(
    settings: Settings, prepared: PreparedModel, folder: Path, steps: Steps, kind: IRKind
) -> BuiltEngine:
    backend = settings.backend
    with steps("export") as set_detail:
        exported, rewriting = _export_model(settings, prepared.model, folder, kind)
        set_detail(f"{exported.kind} by {exported.exporter}")
        cut = _cut_model(settings, exported, folder, rewriting) if settings.export.cuts else []
    with steps("convert") as set_detail:
        lower = Lowering(backend.name, kind, settings.export.rewriters)
        unused = prepared.model.examples.keys() - {spec.name for spec in exported.inputs}
        samples = prepared.reference.for_engine((), exported.inputs).engine_samples
        request = ConvertRequest(
            ir=exported,
            params=settings.params,
            work_dir=folder,
            progress=set_detail,
            shapes=prepared.model.profiles,
            samples=tuple(sample.inputs for sample in samples if sample.kind == "example"),
            calibration=backend.calibration(exported, settings.params, prepared.data, unused),
            unordered=tuple(
                name for comparator in settings.comparators for name in comparator.outputs
            ),
            lower=lower,
        )
        engine = convert_engine(
            backend, request, timeout=settings.verify.timeout, keep=settings.int8_keep, cut=cut
        )
        set_detail(", ".join(file.as_posix() for file in engine.files))
    return BuiltEngine(engine, join_reports(rewriting, lower.report))


def _export_model(
    settings: Settings, model: BoundModel, folder: Path, kind: IRKind
) -> tuple[IRModel, RewriteReport | None]:
    if (file := model.file(kind)) is not None:
        return file, None
    # The opset that the backend reads best, unless the user has chosen one.
    opset = (settings.export.opset or settings.backend.info.opset) if kind == "onnx" else None
    target = target_of(settings.backend.name, kind, config=settings.values or {}, opset=opset)
    # Only a cut needs the model's marks as nodes of the graph.
    marks = [mark_nodes()] if settings.export.cuts else []
    patch = export_patch(target, [*settings.export.rewriters, *marks])
    path = folder / IR_FOLDER / f"model{SUFFIXES[kind]}"
    exporter = settings.export.exporter if kind == "onnx" else None
    exported = write_ir(model, kind, path, exporter=exporter, opset=opset, patch=patch)
    return exported, patch.report


def _cut_model(
    settings: Settings, exported: IRModel, folder: Path, rewriting: RewriteReport | None
) -> list[IRModel]:
    try:
        return split(exported, settings.export.cuts, folder / IR_FOLDER / "parts")
    except UsageError as err:
        # The mark to cut at may be missing because the rewriters did not find its function.
        lines = rewriting.not_found if rewriting else ()
        raise UsageError("; ".join((str(err), *lines)), hint=err.full_hint) from err


def _clear_folder(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
