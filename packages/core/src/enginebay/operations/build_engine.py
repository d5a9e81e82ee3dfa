"""Building of an engine: the export of a model to an IR, and the conversion of the IR."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.artifact import LoadRequest, convert_parts, portable_params, simulation_folder
from enginebay.backend import kept_nodes
from enginebay.errors import (
    ChildTimeoutError,
    ConversionError,
    EnginebayError,
    ExportError,
    UsageError,
    disk_error,
)
from enginebay.exporters import split, write_ir
from enginebay.hooks import ConvertRequest
from enginebay.ir import IR_FOLDER, SUFFIXES
from enginebay.operations.lowering import Lowering
from enginebay.operations.rewrite_model import export_patch, target_of
from enginebay.rewriting import join_reports, mark_nodes
from enginebay.time_limits import check_time_limit, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from enginebay.artifact import Part
    from enginebay.data import DataSet
    from enginebay.hooks import BuiltFor, CalibrationData
    from enginebay.ir import IRModel
    from enginebay.models import BoundModel
    from enginebay.operations.settings import Settings
    from enginebay.operations.steps import Steps
    from enginebay.params import IRKind
    from enginebay.reference import RecordedReference
    from enginebay.rewriting import RewriteReport
    from enginebay.tensors import Sample


@dataclass(frozen=True)
class Build:
    """The input of :func:`build_engine`.

    Attributes:
        settings: The backend, its parameters, and the options of export and verification.
        model: The model, bound to its example inputs.
        reference: The inputs and expected outputs that the engine will be verified with.
        folder: The folder for the engine's files.
        steps: The recorder of the deployment's steps.
        timeout: The time limit of the conversion in seconds.
        data: The calibration data; None without data.
        keep: Nodes, operators and prefixes of node names that must stay in floating point in int8
            or fp8.
        unordered: The names of outputs that are compared as sets.
    """

    settings: Settings
    model: BoundModel
    reference: RecordedReference
    folder: Path
    steps: Steps
    timeout: float
    data: DataSet | None = None
    keep: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()

    @property
    def built_for(self) -> BuiltFor | None:
        """The machines that the engine is built for; None if this machine can run the engine."""
        return self.settings.backend.elsewhere(self.settings.params)


@dataclass(frozen=True)
class BuiltEngine:
    """The files of a built engine, before its verification.

    Attributes:
        build: The input of :func:`build_engine`.
        ir: The IR from which the engine was converted.
        files: The engine's files, relative to ``build.folder``.
        parts: The parts that the model was cut into, each with its files; empty without cuts.
        rewriting: The report of the rewriters; None for a model file that needs no export.
        notes: For each IR that was tried before ``ir``, the reason why it was not used.
        kept: The names of the nodes that an 8-bit engine runs in floating point.
    """

    build: Build
    ir: IRModel
    files: tuple[Path, ...]
    parts: tuple[Part, ...]
    rewriting: RewriteReport | None
    notes: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def samples(self) -> list[Sample]:
        """The recorded samples, without the inputs that the exporter has dropped as unused."""
        return _drop_unused_inputs(self.build.reference.samples, self.ir)

    def with_reference(self, reference: RecordedReference) -> BuiltEngine:
        """Return a copy in which ``build.reference`` is replaced by ``reference``."""
        return replace(self, build=replace(self.build, reference=reference))

    def load_request(self, directory: Path, *, strict: bool) -> LoadRequest:
        """Return the request that loads the engine's files from a folder."""
        settings = self.build.settings
        return LoadRequest(
            backend=settings.backend.name,
            directory=directory,
            files=self.files,
            params=portable_params(settings.params),
            inputs=self.ir.inputs,
            outputs=self.ir.outputs,
            parts=self.parts,
            strict=strict,
            built_for=self.build.built_for,
        )


def build_engine(build: Build) -> BuiltEngine:
    """Build an engine from the first of the backend's IRs whose export and conversion succeed.

    Raises:
        ExportError: There is only one IR to try, and its export failed.
        ConversionError: There is only one IR to try, and its conversion failed; or there are
            several IRs, and all failed.
        ChildTimeoutError: A conversion exceeded its time limit; no other IR was tried.
    """
    failures: dict[IRKind, EnginebayError] = {}
    for kind in _choose_irs(build.settings):
        try:
            engine = _build_from_ir(build, kind)
        except (ExportError, ConversionError) as err:
            if full := disk_error(err):
                raise full from err  # no other IR would help; staging names the disk
            failures[kind] = err
            # The files of a failed converter would otherwise become part of the artifact.
            _clear_folder(build.folder)
        else:
            notes = (f"{failed} was not used: {err}" for failed, err in failures.items())
            return replace(engine, notes=tuple(notes))
    if len(failures) == 1:
        raise next(iter(failures.values()))
    reasons = "; ".join(f"{kind}: {err}" for kind, err in failures.items())
    # The hint of each IR's error is useful here as well.
    hints = dict.fromkeys(err.hint for err in failures.values() if err.hint)
    name = build.settings.backend.name
    raise ConversionError(
        f"backend '{name}' could not convert the model with any IR: {reasons}",
        hint="; or ".join(hints) or None,
    ) from ExceptionGroup("every IR failed", list(failures.values()))


def _choose_irs(settings: Settings) -> tuple[IRKind, ...]:
    kinds: tuple[IRKind, ...] = (
        (settings.export.ir,) if settings.export.ir else settings.backend.info.irs
    )
    cuts = settings.export.cuts
    if not cuts:
        return kinds
    if "onnx" not in kinds:
        raise UsageError(
            f"only an ONNX graph can be cut, but the IR of this deployment is {', '.join(kinds)}",
            hint="leave out the cuts, or choose ir='onnx' and a backend that accepts ONNX",
        )
    return ("onnx",)


def _build_from_ir(build: Build, kind: IRKind) -> BuiltEngine:
    settings = build.settings
    with build.steps("export") as set_detail:
        exported, rewriting = _export_model(build, kind)
        set_detail(f"{exported.kind} by {exported.exporter}")
    with build.steps("convert") as show_detail, _limit_time(build.timeout):

        def set_detail(detail: str) -> None:
            # A conversion in this process, such as a lowering, ends only if it looks at the limit
            # itself.
            check_time_limit()
            show_detail(detail)

        parts: tuple[Part, ...] = ()
        kept: tuple[str, ...] = ()
        if settings.export.cuts:
            parts = _convert_parts(build, exported, rewriting, set_detail)
            files = tuple(Path(path) for part in parts for path in part.paths)
        else:
            if build.keep:
                nodes = settings.backend.quantizable_nodes(_convert_request(build, exported))
                kept = kept_nodes(nodes, build.keep)
            lower = Lowering(settings.backend.name, kind, settings.export.rewriters)
            files = _convert_whole(build, exported, keep=kept, progress=set_detail, lower=lower)
            rewriting = join_reports(rewriting, lower.report)
        show_detail(", ".join(file.as_posix() for file in files))
    return BuiltEngine(build, exported, files, parts, rewriting, kept=kept)


def _convert_request(build: Build, ir: IRModel, **fields: Any) -> ConvertRequest[Any]:
    samples = _drop_unused_inputs(build.reference.samples, ir)
    return ConvertRequest(
        ir=ir,
        params=build.settings.params,
        work_dir=build.folder,
        shapes=build.model.profiles,
        samples=tuple(sample.inputs for sample in samples if sample.kind == "example"),
        calibration=_calibration_data(build, ir),
        unordered=build.unordered,
        **fields,
    )


def _convert_whole(build: Build, ir: IRModel, **fields: object) -> tuple[Path, ...]:
    simulation = simulation_folder(build.folder) if build.built_for else None
    request = _convert_request(build, ir, simulation=simulation, **fields)
    return build.settings.backend.convert(request)


def _calibration_data(build: Build, exported: IRModel) -> CalibrationData | None:
    unused = build.model.examples.keys() - {spec.name for spec in exported.inputs}
    settings = build.settings
    return settings.backend.calibration(exported, settings.params, build.data, unused)


@contextmanager
def _limit_time(seconds: float) -> Iterator[None]:
    with time_limit(seconds) as limit:
        try:
            yield
        except (ConversionError, ChildTimeoutError) as err:
            # The error has another cause, such as a shorter limit of the converter.
            if limit.left:
                raise
            raise ChildTimeoutError(
                f"the conversion ran past its time limit of {seconds:g} s",
                hint=f"--timeout {2 * seconds:g}",
            ) from err


def _export_model(build: Build, kind: IRKind) -> tuple[IRModel, RewriteReport | None]:
    if (file := build.model.file(kind)) is not None:
        return file, None
    settings = build.settings
    # The opset that the backend reads best, unless the user has chosen one.
    opset = (settings.export.opset or settings.backend.info.opset) if kind == "onnx" else None
    target = target_of(settings.backend.name, kind, config=settings.values or {}, opset=opset)
    # Only a cut needs the model's marks as nodes of the graph.
    marks = [mark_nodes()] if settings.export.cuts else []
    patch = export_patch(target, [*settings.export.rewriters, *marks])
    path = build.folder / IR_FOLDER / f"model{SUFFIXES[kind]}"
    exporter = settings.export.exporter if kind == "onnx" else None
    exported = write_ir(build.model, kind, path, exporter=exporter, opset=opset, patch=patch)
    return exported, patch.report


def _convert_parts(
    build: Build,
    exported: IRModel,
    rewriting: RewriteReport | None,
    progress: Callable[[str], None],
) -> tuple[Part, ...]:
    settings = build.settings
    try:
        models = split(exported, settings.export.cuts, build.folder / IR_FOLDER / "parts")
    except UsageError as err:
        # The mark to cut at may be missing because the rewriters did not find its function.
        lines = rewriting.not_found if rewriting else ()
        raise UsageError("; ".join((str(err), *lines)), hint=err.hint) from err
    return convert_parts(
        settings.backend,
        models,
        settings.params,
        build.folder,
        progress,
        simulate=build.built_for is not None,
    )


def _drop_unused_inputs(samples: Sequence[Sample], ir: IRModel) -> list[Sample]:
    return [
        sample._replace(inputs={spec.name: sample.inputs[spec.name] for spec in ir.inputs})
        for sample in samples
    ]


def _clear_folder(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
