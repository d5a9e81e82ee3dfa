"""``compare``: one model on several backends and precisions, side by side."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import MANIFEST_NAME, check_target, staging
from enginebay.errors import ArtifactExistsError, EnginebayError, MismatchError, UsageError
from enginebay.models import unchanged
from enginebay.operations import Steps
from enginebay.operations.deployment import Line
from enginebay.operations.python_call import python_call
from enginebay_lab.comparison.comparison import Comparison, ComparisonRow
from enginebay_lab.comparison.comparison_lines import cells_of, lines_of
from enginebay_lab.measurement.benchmark_artifact import benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from enginebay import Deployment
    from enginebay.models import ModelSource
    from enginebay.operations import Step
    from enginebay.operations.preparation import Prepared
    from enginebay_lab.comparison.comparison_lines import Cell


def compare(
    model: Any,
    args: Any = None,
    *,
    work_dir: str | Path,
    backends: Sequence[str] | None = None,
    precisions: Sequence[str] = (),
    params: Mapping[str, Any] | None = None,
    seconds: float = 3.0,
    overwrite: bool = False,
    watch: Callable[[Step], None] | None = None,
    **options: Any,
) -> Comparison:
    """Deploy a model on several backends, at several precisions, and compare the artifacts.

    The model is found once, and its reference is recorded once for each precision. What fails is a
    row with its reason. The rows are in the folder's ``comparison.json`` as soon as they are known.

    Args:
        model: As :func:`enginebay.deploy` takes it.
        args: Example inputs.
        work_dir: The folder of the artifacts, each named by its backend and precision.
        backends: The backends' names; by default all that are installed.
        precisions: The precisions; by default each backend's own.
        params: Parameters by name, for each backend that has them.
        seconds: How long each artifact may be measured, as :func:`enginebay_lab.benchmark` does it,
            all of them in turns at the end; 0 for not at all.
        overwrite: Replace artifacts that are there already, one by one.
        watch: Called with a step for each row, as :func:`enginebay.deploy` does.
        **options: What else :func:`enginebay.deploy` takes, the same for all rows.

    Raises:
        UsageError: An argument is wrong, or no backend can do what is requested; nothing was
            written.
        BackendUnavailableError: A backend is not installed.
        ModelError: The model's forward raised.

    Example:
        >>> import enginebay_lab as lab, tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
        ...     found = lab.compare(torch.nn.ReLU(), torch.ones(1, 3), work_dir=folder)
        ...     [row.label for row in found.verified]
        ['ncnn', 'onnxruntime', 'openvino']
    """
    if not 0 <= seconds < math.inf:
        raise UsageError(f"seconds is {seconds:g}, wanted 0 or more")
    command = python_call()
    lines = lines_of(cells_of(backends, precisions), params or {}, options, command)
    folder = _checked(Path(work_dir), lines, overwrite=overwrite)
    steps = Steps(watch)
    with steps("model") as set_detail:
        first = next(line for line in lines.values() if isinstance(line, Line))
        source = first.settings.find(model, args)
        set_detail(source.description)
    comparing = _Comparing(source, args, folder, overwrite=overwrite)
    comparison = Comparison(model=source.description, command=command)
    for cell, line in lines.items():
        row = comparing.row(cell, line, steps)
        comparison = msgspec.structs.replace(
            comparison, reference=comparing.reference, rows=(*comparison.rows, row)
        )
        comparison.save(folder)
    if seconds:
        comparison = _measured(comparison, list(lines.values()), seconds, steps)
        comparison.save(folder)
    return comparison


def _measured(
    comparison: Comparison,
    lines: Sequence[Line | EnginebayError],
    seconds: float,
    steps: Steps,
) -> Comparison:
    """The same with the speed of every artifact that is there and can run here."""
    replace = msgspec.structs.replace
    rows, paths = [], []
    for row, line in zip(comparison.rows, lines, strict=True):
        if row.artifact is not None and isinstance(line, Line) and (other := line.elsewhere):
            row = replace(row, notes=(*row.notes, f"not measured: built for {other.machines}"))
        elif row.artifact is not None:
            paths.append(row.artifact)
        rows.append(row)
    comparison = replace(comparison, rows=tuple(rows))
    if not paths:
        return comparison
    with steps("measure") as set_detail:
        try:
            found = benchmark(paths, seconds=seconds, watch=lambda step: set_detail(step.detail))
        except EnginebayError as err:
            note = f"no artifact could be measured: {err}"
            return replace(comparison, notes=(note,))
    speeds = {row.artifact: row for row in found.rows}
    return replace(
        comparison,
        rows=tuple(replace(row, speed=speeds.get(row.artifact or "")) for row in rows),
        machine=found.machine,
        notes=found.notes,
    )


def _checked(folder: Path, cells: Mapping[Cell, Any], *, overwrite: bool) -> Path:
    """The folder in which each artifact may appear; touches nothing.

    Raises:
        ArtifactExistsError: Something is in the place of the folder, or of an artifact.
    """
    if (folder / MANIFEST_NAME).exists():
        raise ArtifactExistsError(
            f'"{folder}" is an artifact; wanted a folder for several', hint="--work-dir FOLDER"
        )
    for cell in cells:
        check_target(folder / cell.folder, overwrite=overwrite)
    return folder.resolve()


class _Comparing:
    """Deploys one row after the other, and keeps what they share.

    Attributes:
        reference: What the rows are compared with; empty before the first.
    """

    def __init__(self, source: ModelSource, args: Any, folder: Path, *, overwrite: bool) -> None:
        self.reference = ""
        self._source = source
        self._args = args
        self._folder = folder
        self._overwrite = overwrite
        self._prepared: dict[Hashable, Prepared] = {}

    def row(self, cell: Cell, line: Line | EnginebayError, steps: Steps) -> ComparisonRow:
        """Deploy one row; an error becomes its reason, unless the model itself raises it."""
        row = ComparisonRow(
            backend=cell.backend, precision=cell.precision or _own_precision(line), verdict="failed"
        )
        if isinstance(line, EnginebayError):
            return _failed(row, line)
        prepared = self._reference(line, steps)
        start = time.perf_counter()
        try:
            with steps(cell.label) as set_detail:
                deployment = self._deploy(cell, line, prepared, set_detail)
                set_detail(deployment.verdict)
        except EnginebayError as err:
            found = _failed(row, err)
        else:
            found = _deployed(row, deployment)
        return msgspec.structs.replace(found, seconds=time.perf_counter() - start)

    def _deploy(
        self, cell: Cell, line: Line, prepared: Prepared, set_detail: Callable[[str], None]
    ) -> Deployment:
        steps = Steps(lambda step: set_detail(f"{step.name} {step.detail}".rstrip()))
        target = self._folder / cell.folder
        with staging(target, overwrite=self._overwrite) as stage, unchanged(self._source):
            return line.deploy(prepared, stage, steps)

    def _reference(self, line: Line, steps: Steps) -> Prepared:
        """The reference, which the rows of one precision and of equal shapes share."""
        settings = line.settings
        params = settings.params
        shapes = (params.input_shapes, params.min_shapes, params.max_shapes)
        # No engine may vouch for itself, and one of the others may be the judge of an ONNX file.
        judged = settings.backend.name if self._source.model is None else ""
        key = (settings.precision, repr(shapes), judged)
        if key not in self._prepared:
            with steps("reference") as set_detail, unchanged(self._source):
                self._prepared[key] = line.prepare(self._source, self._args)
                self.reference = self._prepared[key].reference.description
                set_detail(f"{self.reference}, {settings.precision}")
        return self._prepared[key]


def _own_precision(line: Line | EnginebayError) -> str:
    """The precision that a backend has by default; empty where there is none."""
    if isinstance(line, EnginebayError):
        return ""
    return str(getattr(line.settings.params, "precision", ""))


def _failed(row: ComparisonRow, err: EnginebayError) -> ComparisonRow:
    replace = msgspec.structs.replace
    if isinstance(err, MismatchError):
        return replace(row, verdict=err.verdict.verdict, reason=str(err), verification=err.verdict)
    return replace(row, reason=str(err), hint=err.hint or "")


def _deployed(row: ComparisonRow, deployment: Deployment) -> ComparisonRow:
    verification, artifact = deployment.verification, deployment.artifact
    return msgspec.structs.replace(
        row,
        verdict=verification.verdict,
        reason="" if verification.verdict == "verified" else verification.summary(),
        verification=verification,
        artifact=str(artifact.path),
        size=sum(file.size for file in artifact.manifest.files),
        notes=(*deployment.notes, *verification.fallbacks),
    )
