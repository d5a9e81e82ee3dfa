"""Export and convert: the first IR that goes through both becomes the engine's files."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.artifact import LoadRequest, convert_parts, portable, simulation_folder
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
from enginebay.isolation import check_time_limit, time_limit
from enginebay.operations.rewrite_model import export_patch
from enginebay.rewriting import join_reports, mark_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from enginebay.artifact import Part
    from enginebay.data import DataSet
    from enginebay.hooks import BuiltFor, CalibrationData
    from enginebay.ir import IRKind, IRModel
    from enginebay.models import BoundModel
    from enginebay.operations.settings import Settings
    from enginebay.operations.steps import Steps
    from enginebay.rewriting import RewriteReport
    from enginebay.tensors import Sample
    from enginebay.verification import RecordedReference


@dataclass(frozen=True)
class Build:
    """The input of a build.

    Attributes:
        settings: The backend, its parameters, and how to export.
        model: The model with its inputs bound.
        reference: The samples that the engine will be verified with.
        folder: Where the files go.
        steps: Records the steps.
        timeout: Seconds that the converter's processes may take.
        data: What int8 is calibrated with; None for nothing.
        keep: Nodes, operators and parts of names that stay out of int8, as the caller wrote them.
        unordered: Outputs that are compared as sets.
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
    def elsewhere(self) -> BuiltFor | None:
        """The machines that the engine is built for, where this is none of them; else None."""
        return self.settings.backend.elsewhere(self.settings.params)


@dataclass(frozen=True)
class Engine:
    """An engine's files, before anything is verified.

    Attributes:
        build: What it was built from.
        ir: What was converted.
        files: The engine's files, relative to the folder.
        parts: The engines that the files belong to, where the model was cut.
        rewriting: What was rewritten in the export; None where nothing could be.
        notes: Why earlier IRs were not used.
        kept: Names of the nodes that stay out of int8.
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
        """The samples without the inputs that the exporter has dropped, as no node uses them."""
        return _used(self.build.reference.samples, self.ir)

    def compared_on(self, reference: RecordedReference) -> Engine:
        """The same, verified with other samples."""
        return replace(self, build=replace(self.build, reference=reference))

    def load_request(self, directory: Path, *, strict: bool) -> LoadRequest:
        """The request that loads the engine from where its files are by then."""
        settings = self.build.settings
        return LoadRequest(
            backend=settings.backend.name,
            directory=directory,
            files=self.files,
            params=portable(settings.params),
            inputs=self.ir.inputs,
            outputs=self.ir.outputs,
            parts=self.parts,
            strict=strict,
            built_for=self.build.elsewhere,
        )


def build_engine(build: Build) -> Engine:
    """Try the IRs in the backend's order, until one is exported and converted.

    Raises:
        ExportError: The only IR could not be exported.
        ConversionError: The only IR could not be converted, or no IR went through.
        ChildTimeoutError: A conversion ran past its time limit; no other IR was tried.
    """
    failures: dict[IRKind, EnginebayError] = {}
    for kind in _kinds(build.settings):
        try:
            engine = _through(build, kind)
        except (ExportError, ConversionError) as err:
            if full := disk_error(err):
                raise full from err  # no other IR would help; staging says which disk
            failures[kind] = err
            _empty(build.folder)
        else:
            notes = (f"{failed} was not used: {err}" for failed, err in failures.items())
            return replace(engine, notes=tuple(notes))
    if len(failures) == 1:
        raise next(iter(failures.values()))
    reasons = "; ".join(f"{kind}: {err}" for kind, err in failures.items())
    hints = dict.fromkeys(err.hint for err in failures.values() if err.hint)
    name = build.settings.backend.name
    raise ConversionError(
        f"no IR leads to backend '{name}': {reasons}", hint="; or ".join(hints) or None
    ) from ExceptionGroup("every IR failed", list(failures.values()))


def _kinds(settings: Settings) -> tuple[IRKind, ...]:
    """The IRs to try, in order; only an ONNX graph can be cut."""
    kinds: tuple[IRKind, ...] = (
        (settings.export.ir,) if settings.export.ir else settings.backend.info.irs
    )
    cuts = settings.export.cuts
    if not cuts:
        return kinds
    if "onnx" not in kinds:
        raise UsageError(
            f"only an ONNX graph can be cut, and this deployment goes through {', '.join(kinds)}",
            hint="leave out the cuts, or choose ir='onnx' and a backend that takes it",
        )
    return ("onnx",)


def _through(build: Build, kind: IRKind) -> Engine:
    settings = build.settings
    with build.steps("export") as set_detail:
        exported, rewriting = _export(build, kind)
        set_detail(f"{exported.kind} by {exported.exporter}")
    with build.steps("convert") as show, _in_time(build.timeout):

        def set_detail(detail: str) -> None:
            check_time_limit()
            show(detail)

        parts: tuple[Part, ...] = ()
        kept: tuple[str, ...] = ()
        if settings.export.cuts:
            parts = _convert_parts(build, exported, rewriting, set_detail)
            files = tuple(Path(path) for part in parts for path in part.paths)
        else:
            kept = kept_nodes(_quantizable(build, exported), build.keep) if build.keep else ()
            lower = settings.backend.lowering(kind, settings.export.rewriters)
            files = _convert_whole(build, exported, keep=kept, progress=set_detail, lower=lower)
            rewriting = join_reports(rewriting, lower.report)
        show(", ".join(file.as_posix() for file in files))
    return Engine(build, exported, files, parts, rewriting, kept=kept)


def _request(build: Build, ir: IRModel, **over: Any) -> ConvertRequest[Any]:
    samples = _used(build.reference.samples, ir)
    return ConvertRequest(
        ir=ir,
        params=build.settings.params,
        work_dir=build.folder,
        shapes=build.model.profiles,
        samples=tuple(sample.inputs for sample in samples if sample.kind == "example"),
        calibration=_calibration(build, ir),
        unordered=build.unordered,
        **over,
    )


def _convert_whole(build: Build, ir: IRModel, **over: Any) -> tuple[Path, ...]:
    simulation = simulation_folder(build.folder) if build.elsewhere else None
    return build.settings.backend.convert(_request(build, ir, simulation=simulation, **over))


def _quantizable(build: Build, ir: IRModel) -> dict[str, str]:
    return build.settings.backend.quantizable_nodes(_request(build, ir))


def _calibration(build: Build, exported: IRModel) -> CalibrationData | None:
    unused = build.model.examples.keys() - {spec.name for spec in exported.inputs}
    settings = build.settings
    return settings.backend.calibration(exported, settings.params, build.data, unused)


@contextmanager
def _in_time(seconds: float) -> Iterator[None]:
    """Hold a conversion to a time limit."""
    with time_limit(seconds) as limit:
        try:
            yield
        except (ConversionError, ChildTimeoutError) as err:
            if limit.left:
                raise
            raise ChildTimeoutError(
                f"the conversion ran past its time limit of {seconds:g} s",
                hint=f"--timeout {2 * seconds:g}",
            ) from err


def _export(build: Build, kind: IRKind) -> tuple[IRModel, RewriteReport | None]:
    """The IR, with the rewriters for the backend applied; a file of this kind is one already."""
    if (file := build.model.file(kind)) is not None:
        return file, None
    settings = build.settings
    wanted = settings.export.opset or settings.backend.info.opset
    opset = wanted if kind == "onnx" else None
    patch = export_patch(
        backend=settings.backend.name,
        ir=kind,
        rewriters=[
            *settings.export.rewriters,
            *([mark_nodes()] if settings.export.cuts else []),
        ],
        config=settings.values,
        opset=opset,
    )
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
        # A function that was to be marked and is not there has no mark to cut at.
        lines = rewriting.not_found if rewriting else ()
        raise UsageError("; ".join((str(err), *lines)), hint=err.hint) from err
    return convert_parts(
        *(settings.backend, models, settings.params, build.folder, progress),
        simulated=build.elsewhere is not None,
    )


def _used(samples: Sequence[Sample], ir: IRModel) -> list[Sample]:
    return [
        sample._replace(inputs={spec.name: sample.inputs[spec.name] for spec in ir.inputs})
        for sample in samples
    ]


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
