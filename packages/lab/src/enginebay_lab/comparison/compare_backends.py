"""``compare``: deploy one model on several backends and precisions, and compare the artifacts."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from itertools import product
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import enginebay as eb
from enginebay.authors import Steps, installed_backends
from enginebay.authors.arrays import parse_shapes
from enginebay.authors.artifacts import check_target
from enginebay.authors.files import read_config
from enginebay.authors.sources import find_model, shapes_of
from enginebay.commands import python_call, typed
from enginebay.errors import (
    ArtifactExistsError,
    BackendNotFoundError,
    BackendUnavailableError,
    EnginebayError,
    ModelError,
    ModelSourceError,
    ParamsError,
    UsageError,
)
from enginebay_lab.comparison.comparison import Comparison, ComparisonRow
from enginebay_lab.measurement.benchmark_artifact import benchmark
from enginebay_lab.shared_params import (
    as_list,
    check_deploy_options,
    check_shared_param,
    describe_params,
    list_axes,
    own_params,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay import Backend
    from enginebay.authors import Step
    from enginebay.authors.sources import ModelSource


class Combination(NamedTuple):
    """One backend at one precision, with one value of each parameter.

    Attributes:
        backend: The backend's name.
        precision: The precision; empty for the backend's default.
        params: The backend's parameters.
        varied: Those parameters of which the comparison has several values.
        label: The name of the row: ``openvino fp16``, ``onnxruntime providers=onnxruntime_qnn``.
        folder: The name of the artifact's folder: ``openvino-fp16``.
    """

    backend: str
    precision: str
    params: dict[str, object]
    varied: dict[str, object]
    label: str
    folder: str


def compare(
    model: object,
    args: object = None,
    *,
    work_dir: str | Path,
    backends: str | Sequence[str] | None = None,
    precisions: str | Sequence[str] = (),
    params: Mapping[str, object] | None = None,
    duration: float = 3.0,
    overwrite: bool = False,
    watch: Callable[[Step], None] | None = None,
    **options: Any,
) -> Comparison:
    """Deploy a model on several backends, at several precisions, and compare the artifacts.

    The model is loaded once, and deployed with :func:`enginebay.deploy` for each backend, precision
    and combination of parameters. A failed deployment becomes a row with the reason of the failure.
    After each deployment, the rows so far are written to ``comparison.json`` in ``work_dir``.

    Args:
        model: The model, in any form that :func:`enginebay.deploy` accepts.
        args: Example inputs.
        work_dir: The folder in which each artifact gets a folder, such as ``openvino-fp16``.
        backends: The name of a backend, or several; by default all installed backends.
        precisions: One precision, or several; by default each backend's default precision.
        params: Backend parameters by name; each backend gets the parameters that its class
            declares. As in a sweep, a list has several values, with a row for each; a list of lists
            has several lists.
        duration: The longest time in seconds of the benchmark of each artifact, see
            :func:`enginebay_lab.benchmark`. The benchmark runs after all deployments; 0 to skip it.
        overwrite: Replace existing artifacts, one at a time.
        watch: Called with each step (one for each row) when it starts, when its detail changes and
            when it ends.
        **options: Other arguments of :func:`enginebay.deploy`, the same for all rows.

    Raises:
        UsageError: An argument is wrong, or no backend supports the request; nothing was written.
        BackendUnavailableError: A backend is not installed, or no backend can be used.
        ModelError: The model's forward raised an exception.

    Example:
        >>> import enginebay_lab as lab, tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
        ...     comparison = lab.compare(torch.nn.ReLU(), torch.ones(1, 3), work_dir=folder)
        ...     [row.label for row in comparison.verified]
        ['ncnn', 'onnxruntime', 'openvino']
    """
    check_deploy_options(options, {"backend": "backends", "precision": "precisions"})
    if not 0 <= duration < math.inf:
        raise UsageError(f"'duration' is {duration:g}, expected 0 or more")
    command = python_call()
    params = params or {}
    combinations = _list_combinations(backends, precisions, params)
    folder = _check_folder(Path(work_dir), combinations, overwrite=overwrite)
    if options.get("data") is not None:
        options["data"] = eb.DataSet.of(options["data"])  # once: a stream cannot be read again
    steps = Steps(watch)
    with steps("model") as set_detail:
        # Once for all rows: code that builds a model may initialize its weights at random.
        source = _load_model(model, args, combinations[0].params, options.get("config"))
        set_detail(source.description)
    comparison = Comparison(model=source.description, command=command)
    refusals: list[EnginebayError] = []
    runnable: list[str] = []
    for pair in combinations:
        start = time.perf_counter()
        precision = pair.precision or default_precision(pair.backend, pair.params)
        row = ComparisonRow(
            backend=pair.backend, precision=precision, params=pair.varied, verdict="failed"
        )
        try:
            # Each artifact records the call of compare, not of deploy.
            with steps(pair.label) as set_detail, typed(command):
                deployment = eb.deploy(
                    source,
                    args,
                    backend=pair.backend,
                    params=pair.params,
                    precision=pair.precision or None,
                    work_dir=folder / pair.folder,
                    overwrite=overwrite,
                    watch=_forward_steps(set_detail),
                    **options,
                )
                set_detail(deployment.verdict)
        except (ModelError, ModelSourceError, BackendNotFoundError):
            raise  # the other rows would fail in the same way
        except EnginebayError as err:
            row = row.with_error(err)
            if isinstance(err, UsageError | BackendUnavailableError):
                refusals.append(err)
        else:
            row = row.with_deployment(deployment)
            if not deployment.is_elsewhere:  # an engine for another machine cannot be measured
                runnable.append(str(deployment.artifact.path))
        row = msgspec.structs.replace(row, seconds=time.perf_counter() - start)
        comparison = _add_row(comparison, row)
        if len(refusals) < len(comparison.rows):  # a request that no backend accepts writes nothing
            comparison.save(folder)
    if len(refusals) == len(combinations):
        raise refusals[0]
    if duration and runnable:
        comparison = _measure_speeds(comparison, runnable, duration, steps)
        comparison.save(folder)
    return comparison


def _list_combinations(
    backends: str | Sequence[str] | None,
    precisions: str | Sequence[str],
    params: Mapping[str, object],
) -> list[Combination]:
    """Return each combination of a backend, a precision and the parameters' values once.

    Raises:
        UsageError: No backend is installed or requested, or no backend declares one of the
            parameters.
    """
    names = installed_backends() if backends is None else as_list(backends)
    if not names:
        raise UsageError("no backend to compare", hint="list the backends: enginebay backends")
    engines = {name: _load_backend(name) for name in names}
    _check_params(engines, params)
    found: list[Combination] = []
    for name, engine in engines.items():
        axes = list_axes(engine, params)
        for precision, *values in product(
            dict.fromkeys(as_list(precisions) or ("",)), *axes.values()
        ):
            chosen = dict(zip(axes, values, strict=True))
            varied = {key: value for key, value in chosen.items() if len(axes[key]) > 1}
            label = f"{name} {precision}".rstrip() + describe_params(varied)
            if (name, precision, chosen) in [pair[:3] for pair in found]:
                continue
            # File names have at most 255 bytes.
            folder = re.sub(r"[^\w.,=]+", "-", label).encode()[:200].decode(errors="ignore")
            same = sum(folder == pair.folder.partition("~")[0] for pair in found)
            folder += f"~{same + 1}" if same else ""
            found.append(Combination(name, precision, chosen, varied, label, folder))
    return found


def _load_backend(name: str) -> Backend | None:
    """Return a backend; None for a broken one, whose parameters are unknown."""
    try:
        return eb.get_backend(name)
    except BackendNotFoundError:
        raise
    except EnginebayError:
        return None  # its row gets the error


def _check_params(engines: Mapping[str, Backend | None], params: Mapping[str, object]) -> None:
    """Raise an error if a parameter has no values, or no backend declares it."""
    if not isinstance(params, Mapping):
        raise UsageError(f"'params' is a {type(params).__name__}, expected a mapping")
    if "precision" in params:
        raise UsageError("'params' cannot contain 'precision'", hint="pass precisions=['fp16']")
    known = [engine for engine in engines.values() if engine]
    for name, value in params.items():
        if value in ([], ()):
            raise ParamsError(f"the list of values of '{name}' is empty")
        if len(known) == len(engines):
            check_shared_param(name, known)


def _check_folder(folder: Path, combinations: Sequence[Combination], *, overwrite: bool) -> Path:
    """Check that each artifact can be written into a folder, and return the folder's full path.

    Raises:
        ArtifactExistsError: The folder is an artifact itself, or it contains one of the artifacts
            already and ``overwrite`` is False.
    """
    if (folder / "manifest.json").exists():
        raise ArtifactExistsError(
            f"'{folder}' is an artifact, expected a folder that may contain artifacts",
            hint="choose another --work-dir",
        )
    for pair in combinations:
        check_target(folder / pair.folder, overwrite=overwrite)
    return folder.resolve()


def _load_model(model: object, args: object, params: Mapping[str, Any], config: Any) -> ModelSource:
    table = read_config(config) if isinstance(config, str | PathLike) else config or {}
    shapes = params.get("input_shapes")
    if isinstance(shapes, str):
        shapes = parse_shapes(shapes)
    return find_model(model, table.get("codebase_config"), shapes or shapes_of(args))


def _forward_steps(set_detail: Callable[[str], None]) -> Callable[[Step], None]:
    return lambda step: set_detail(f"{step.name} {step.detail}".rstrip())


def _add_row(comparison: Comparison, row: ComparisonRow) -> Comparison:
    reference = row.verification.reference if row.verification else ""
    return msgspec.structs.replace(
        comparison,
        reference=comparison.reference or reference,
        rows=(*comparison.rows, row),
    )


def default_precision(name: str, params: Mapping[str, object]) -> str:
    """Return a backend's default precision; an empty string if it has none or cannot be used."""
    try:
        backend = eb.get_backend(name)
        return str(getattr(backend.params_from(own_params(backend, params)), "precision", ""))
    except EnginebayError:
        return ""


def _measure_speeds(
    comparison: Comparison, paths: Sequence[str], duration: float, steps: Steps
) -> Comparison:
    """Benchmark the artifacts in ``paths``; return the comparison with the speeds added."""
    replace = msgspec.structs.replace
    with steps("measure") as set_detail:
        try:
            measured = benchmark(
                paths, duration=duration, watch=lambda step: set_detail(step.detail)
            )
        except EnginebayError as err:
            note = f"no artifact could be measured: {err}"
            return replace(comparison, notes=(note,))
    speeds = {row.artifact: row for row in measured.rows}
    return replace(
        comparison,
        rows=tuple(replace(r, speed=speeds.get(r.artifact or "")) for r in comparison.rows),
        machine=measured.machine,
        notes=measured.notes,
    )
