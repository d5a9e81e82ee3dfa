"""``compare``: one model on several backends and precisions, side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import enginebay as eb
from enginebay.authors import (
    Steps,
    check_target,
    find_model,
    installed_backends,
    parse_shapes,
    read_config,
    shapes_of,
)
from enginebay.commands import python_call, typed
from enginebay.errors import (
    ArtifactExistsError,
    BackendNotFoundError,
    BackendUnavailableError,
    EnginebayError,
    ModelError,
    ModelSourceError,
    NotVerifiedError,
    UsageError,
)
from enginebay_lab.comparison.comparison import Comparison, ComparisonRow
from enginebay_lab.measurement.benchmark_artifact import benchmark
from enginebay_lab.shared_params import check_shared_param, own_params

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.authors import ModelSource, Step


class Combination(NamedTuple):
    """One backend at one precision.

    Attributes:
        backend: The backend's name.
        precision: The precision; empty for the backend's own.
    """

    backend: str
    precision: str = ""

    @property
    def label(self) -> str:
        """The name in messages: ``openvino fp16``."""
        return f"{self.backend} {self.precision}".rstrip()

    @property
    def folder(self) -> str:
        """The name of its artifact's folder: ``openvino-fp16``."""
        return self.label.replace(" ", "-")


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

    The model is found once, and each row is a call of :func:`enginebay.deploy` with it; one that
    fails is a row with the reason. The rows are in the folder's ``comparison.json`` as soon as
    they are known.

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
        BackendUnavailableError: A backend is not installed, or none can be used.
        ModelError: The model's forward raised.

    Example:
        >>> import enginebay_lab as lab, tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
        ...     found = lab.compare(torch.nn.ReLU(), torch.ones(1, 3), work_dir=folder)
        ...     [row.label for row in found.verified]
        ['ncnn', 'onnxruntime', 'openvino']
    """
    if not 0 <= seconds < math.inf:
        raise UsageError(f"seconds is {seconds:g}, expected 0 or more")
    command = python_call()
    cells = _cells(backends, precisions)
    params = params or {}
    _check_params({cell.backend for cell in cells}, params)
    folder = _checked(Path(work_dir), cells, overwrite=overwrite)
    if options.get("data") is not None:
        options["data"] = eb.DataSet.of(options["data"])  # once: a stream cannot be read again
    steps = Steps(watch)
    with steps("model") as set_detail:
        source = _find(model, args, params, options.get("config"))
        set_detail(source.description)
    comparison = Comparison(model=source.description, command=command)
    refusals: list[EnginebayError] = []
    runnable: list[str] = []
    for cell in cells:
        start = time.perf_counter()
        try:
            with steps(cell.label) as set_detail, typed(command):
                deployment = eb.deploy(
                    *(source, args),
                    backend=cell.backend,
                    params=own_params(eb.get_backend(cell.backend), params),
                    precision=cell.precision or None,
                    work_dir=folder / cell.folder,
                    overwrite=overwrite,
                    watch=_watch(set_detail),
                    **options,
                )
                set_detail(deployment.verdict)
        except (ModelError, ModelSourceError, BackendNotFoundError):
            raise  # no other backend will do better
        except EnginebayError as err:
            row = _failed(cell, err, params)
            if isinstance(err, UsageError | BackendUnavailableError):
                refusals.append(err)
        else:
            row = _deployed(cell, deployment)
            if not deployment.is_elsewhere:
                runnable.append(str(deployment.artifact.path))
        row = msgspec.structs.replace(row, seconds=time.perf_counter() - start)
        comparison = _with_row(comparison, row)
        if len(refusals) < len(comparison.rows):
            comparison.save(folder)
    if len(refusals) == len(cells):
        raise refusals[0]
    if seconds and runnable:
        comparison = _measured(comparison, runnable, seconds, steps)
        comparison.save(folder)
    return comparison


def _cells(backends: Sequence[str] | None, precisions: Sequence[str]) -> list[Combination]:
    """The rows to come, each once.

    Raises:
        UsageError: There is no backend.
        BackendNotFoundError: A name is no installed backend's.
    """
    for argument, texts in (("backends", backends), ("precisions", precisions)):
        if isinstance(texts, str):
            raise UsageError(
                f"{argument} is the text '{texts}', expected a sequence of names",
                hint=f"{argument}=['{texts}']",
            )
    names = installed_backends() if backends is None else backends
    if not names:
        raise UsageError("no backend to compare", hint="enginebay backends")
    return list(
        dict.fromkeys(Combination(name, one) for name in names for one in precisions or ("",))
    )


def _check_params(backends: set[str], params: Mapping[str, Any]) -> None:
    """Raise for a backend that is not installed, or a parameter that none of them has."""
    if not isinstance(params, Mapping):
        raise UsageError(f"params is a {type(params).__name__}, expected a mapping")
    if "precision" in params:
        raise UsageError("a comparison has several precisions", hint="precisions=['fp16']")
    engines = []
    for name in backends:
        try:
            engines.append(eb.get_backend(name))
        except BackendNotFoundError:
            raise
        except EnginebayError:
            return  # its own parameters are not known; its row says why
    for name in params:
        check_shared_param(name, engines)


def _checked(folder: Path, cells: Sequence[Combination], *, overwrite: bool) -> Path:
    """The folder in which each artifact may appear; touches nothing.

    Raises:
        ArtifactExistsError: Something is in the place of the folder, or of an artifact.
    """
    if (folder / "manifest.json").exists():
        raise ArtifactExistsError(
            f'"{folder}" is an artifact; expected a folder for several', hint="--work-dir FOLDER"
        )
    for cell in cells:
        check_target(folder / cell.folder, overwrite=overwrite)
    return folder.resolve()


def _find(model: Any, args: Any, params: Mapping[str, Any], config: Any) -> ModelSource:
    """Find the model once, for all rows: what builds it may give it other weights each time."""
    table = read_config(config) if isinstance(config, str | PathLike) else config or {}
    shapes = params.get("input_shapes")
    if isinstance(shapes, str):
        shapes = parse_shapes(shapes)
    return find_model(model, table.get("codebase_config"), shapes or shapes_of(args))


def _watch(set_detail: Callable[[str], None]) -> Callable[[Step], None]:
    return lambda step: set_detail(f"{step.name} {step.detail}".rstrip())


def _with_row(comparison: Comparison, row: ComparisonRow) -> Comparison:
    reference = row.verification.reference if row.verification else ""
    return msgspec.structs.replace(
        comparison,
        reference=comparison.reference or reference,
        rows=(*comparison.rows, row),
    )


def _failed(cell: Combination, err: EnginebayError, params: Mapping[str, Any]) -> ComparisonRow:
    row = ComparisonRow(
        backend=cell.backend,
        precision=cell.precision or _own_precision(cell.backend, params),
        verdict="failed",
        reason=str(err),
    )
    if isinstance(err, NotVerifiedError):
        return msgspec.structs.replace(row, verdict=err.verdict.verdict, verification=err.verdict)
    return msgspec.structs.replace(row, hint=err.hint or "")


def _own_precision(name: str, params: Mapping[str, Any]) -> str:
    """The precision that a backend has by default; empty where there is none."""
    try:
        backend = eb.get_backend(name)
        return str(getattr(backend.params_from(own_params(backend, params)), "precision", ""))
    except EnginebayError:
        return ""


def _deployed(cell: Combination, deployment: eb.Deployment) -> ComparisonRow:
    verification, artifact = deployment.verification, deployment.artifact
    manifest, notes = artifact.manifest, deployment.notes
    if deployment.is_elsewhere:
        notes = (*notes, f"not measured: built for {manifest.built_for}")
    return ComparisonRow(
        backend=cell.backend,
        precision=str(manifest.params.get("precision", cell.precision)),
        verdict=verification.verdict,
        reason="" if verification.verdict == "verified" else verification.summary(),
        verification=verification,
        artifact=str(artifact.path),
        size=sum(file.size for file in manifest.files),
        notes=(*notes, *verification.fallbacks),
    )


def _measured(
    comparison: Comparison, paths: Sequence[str], seconds: float, steps: Steps
) -> Comparison:
    """The same with the speed of the artifacts that can run here."""
    replace = msgspec.structs.replace
    with steps("measure") as set_detail:
        try:
            found = benchmark(paths, seconds=seconds, watch=lambda step: set_detail(step.detail))
        except EnginebayError as err:
            note = f"no artifact could be measured: {err}"
            return replace(comparison, notes=(note,))
    speeds = {row.artifact: row for row in found.rows}
    return replace(
        comparison,
        rows=tuple(replace(r, speed=speeds.get(r.artifact or "")) for r in comparison.rows),
        machine=found.machine,
        notes=found.notes,
    )
