"""The settings of a deployment, from the caller's arguments and a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.backend import default_backend
from enginebay.comparators import Comparator, find_comparators
from enginebay.config import ExportOptions, VerifyOptions, merge_options
from enginebay.data import DataSet
from enginebay.errors import UsageError
from enginebay.hooks import Task
from enginebay.operations.backend import Backend, get_backend
from enginebay.operations.rewrite_model import find_sets
from enginebay.params import BackendParams
from enginebay.reference import ProbeSettings
from enginebay.tasks import read_task
from enginebay.verdict import PROBES
from enginebay.verification import Terms, check_tolerances

if TYPE_CHECKING:
    from pathlib import Path


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a deployment, checked before the model is imported.

    Attributes:
        backend: The backend that converts and runs the model.
        params: The backend's parameters.
        export: The options of the export.
        verify: The options of the verification.
        dynamic: The dynamic dimensions; None for the dimensions that the shapes in ``params`` make
            dynamic.
        data: The data set; None without data.
        calls_are_data: True if recorded calls are the data.
        int8_keep: Nodes, operators and prefixes of node names that stay in floating point.
        codebase_config: The config's section for model sources; None without this section.
        values: The config as plain data, for rewriters; None without a config.
        notes: Keys of the config that have no effect, with the reason.
        task: The task in ``export``; None for the task of the model source.
        comparators: The comparators in ``verify``.
        probes: The settings of the probe inputs (generated, similar to the example).
    """

    backend: Backend
    params: BackendParams
    export: ExportOptions
    verify: VerifyOptions
    dynamic: Mapping[str, Any] | Sequence[str] | None = None
    data: DataSet | None = None
    calls_are_data: bool = False
    int8_keep: tuple[str, ...] = ()
    codebase_config: Mapping[str, Any] | None = None
    values: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    task: Task | None = None
    comparators: tuple[Comparator, ...] = ()
    probes: ProbeSettings = ProbeSettings()

    @property
    def precision(self) -> str:
        """The coarsest precision that the parameters allow."""
        return self.backend.allowed_precision(self.params)

    @property
    def terms(self) -> Terms:
        """How the engine is compared with its reference."""
        verify = self.verify
        return Terms(verify.timeout, verify.rtol, verify.atol, self.comparators)


def resolve_settings(
    config: Mapping[str, object] | str | Path | None,
    *,
    backend: str | None = None,
    params: BackendParams | Mapping[str, object] | None = None,
    precision: str | None = None,
    dynamic: Mapping[str, object] | Sequence[str] | None = None,
    data: object = None,
    calls: object = None,
    int8_keep: Sequence[str] = (),
    export: ExportOptions | Mapping[str, object] | None = None,
    verify: VerifyOptions | Mapping[str, object] | None = None,
) -> Settings:
    """Return the settings of a deployment, from the arguments of :func:`enginebay.deploy`.

    Arguments take precedence over the config, except for options with their default value.
    Parameters by name are merged with those in the config; an instance of ``BackendParams``
    replaces them. Recorded ``calls`` are the data if there is no other: they have the real inputs
    of an application.

    Raises:
        ConfigError: The config is invalid, or for another backend.
        BackendUnavailableError: The backend cannot be used.
        ParamsError: A parameter or an option is unknown or invalid; or the precision requires
            calibration data.
        UsageError: An option is invalid, or cannot be combined with others; or the data cannot be
            used.
    """
    export, verify = ExportOptions.of(export), VerifyOptions.of(verify)
    check_timeout(verify.timeout)
    params = with_precision(params, precision)
    if config is None:
        settings, data_of_config = _use_arguments(backend, params, dynamic, export, verify), None
    else:
        settings, data_of_config = _use_config(config, backend, params, dynamic, export, verify)
    keep = (int8_keep,) if isinstance(int8_keep, str) else tuple(int8_keep)
    settings = _check_options(msgspec.structs.replace(settings, int8_keep=keep))
    given = next((given for given in (data, data_of_config, calls) if given is not None), None)
    return _open_data(settings, given, is_calls=given is calls)


def _use_arguments(
    backend: str | None,
    params: BackendParams | Mapping[str, object] | None,
    dynamic: Mapping[str, object] | Sequence[str] | None,
    export: ExportOptions,
    verify: VerifyOptions,
) -> Settings:
    engine = get_backend(backend or default_backend())
    resolved = engine.params_from(params)
    if dynamic is not None and (resolved.min_shapes or resolved.max_shapes):
        raise UsageError(
            "'dynamic' cannot be combined with 'min_shapes' or 'max_shapes'",
            hint="leave out --dynamic, or --min-shapes and --max-shapes",
        )
    return Settings(backend=engine, params=resolved, export=export, verify=verify, dynamic=dynamic)


def _use_config(
    config: Mapping[str, object] | str | Path,
    backend: str | None,
    params: BackendParams | Mapping[str, object] | None,
    dynamic: Mapping[str, object] | Sequence[str] | None,
    export: ExportOptions,
    verify: VerifyOptions,
) -> tuple[Settings, object]:
    """Return the settings, and the data in the config."""
    # Imported only if there is a config, since this takes time at every start.
    from enginebay.config import (
        Problems,
        backend_params,
        dynamic_shapes as open_axes,
        plain,
        read_sections,
        read_table,
    )

    table = read_table(config) if isinstance(config, str | PathLike) else config
    if not isinstance(table, Mapping):
        raise UsageError(
            f"invalid config: expected a mapping or a path, found a {type(config).__name__}"
        )
    problems = Problems()
    sections = read_sections(table, problems)
    engine = get_backend(backend or sections.backend or default_backend())
    if sections.backend not in (None, engine.name):
        problems.wrong(
            ("backend_config", "type"),
            f"the config is for backend '{sections.backend}', not '{engine.name}'",
            f"leave --backend {engine.name} out, or change the config",
        )
        problems.with_places(table).raise_first()
    over = params if isinstance(params, Mapping) else {}
    resolved = backend_params(engine.Params, sections, problems, over=over)
    problems.with_places(table).raise_first()
    if isinstance(params, BackendParams):
        resolved = engine.params_from(params)
    values = plain(table)
    settings = Settings(
        backend=engine,
        params=resolved,
        export=merge_options(export, sections.export),
        verify=merge_options(verify, sections.verify),
        dynamic=open_axes(sections.ir, resolved) if dynamic is None else dynamic,
        codebase_config=values.get("codebase_config"),
        values=values,
        notes=tuple(problems.notes),
    )
    return settings, sections.calib.data


def _check_options(settings: Settings) -> Settings:
    """Check that the options fit the backend, and find what they name."""
    backend, params = settings.backend, settings.params
    export, verify = settings.export, settings.verify
    check_tolerances(verify.rtol, verify.atol)
    backend.check_converts()
    if verify.strict:
        purpose = "'strict' checks the fallbacks of the engine"
        backend.check_runs_here(params, purpose, "leave out --strict")
    if settings.int8_keep:
        backend.check_calibrated(params, "'int8_keep' excludes layers from int8")
    return msgspec.structs.replace(
        settings,
        export=export.replace(rewriters=find_sets(export.rewriters)),
        task=None if export.task is None else read_task(export.task),
        comparators=find_comparators(verify.compare or {}),
        probes=ProbeSettings(
            PROBES if verify.probes == "thorough" else verify.probes,
            dict(verify.domain),
            effort=10 if verify.probes == "thorough" else 1,
            large=verify.probes_extreme,
            calibrated=backend.calibrated_precision(params),
            timeout=verify.timeout,
        ),
    )


def _open_data(settings: Settings, data: object, *, is_calls: bool) -> Settings:
    """Add the data set, if there is data; a calibrated precision requires a data set."""
    precision = settings.probes.calibrated
    settings.backend.check_data(settings.params, has_data=data is not None)
    if settings.export.cuts and precision:
        raise UsageError(
            f"a model that is cut into parts cannot be calibrated for {precision}: "
            "no data set has the inputs of the later parts",
            hint="leave out the cuts, or deploy the parts one by one",
        )
    if data is None:
        return settings
    return msgspec.structs.replace(settings, data=DataSet.of(data), calls_are_data=is_calls)


def check_timeout(timeout: float) -> None:
    """Check that a time limit is a positive number.

    Raises:
        UsageError: The limit is no number, 0, negative or NaN.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise UsageError(f"invalid timeout {timeout!r}: expected a number of seconds")
    if not timeout > 0:
        raise UsageError(f"invalid timeout of {timeout:g} seconds: expected more than 0")


def with_precision(
    params: BackendParams | Mapping[str, object] | None, precision: str | None
) -> BackendParams | Mapping[str, object] | None:
    """Return parameters with a precision, unless it is None; a different one is an error."""
    if precision is None:
        return params
    if isinstance(params, BackendParams):
        return params.replace(precision=precision)
    fields = dict(params or {})
    if fields.setdefault("precision", precision) != precision:
        raise UsageError(
            f"two different precisions are set: {precision} and, in params, {fields['precision']}",
            hint="leave out one of them",
        )
    return fields
