"""The settings of a deployment, from the caller's arguments and a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.backend import Backend, default_backend
from enginebay.config import ExportOptions, VerifyOptions, merge_options
from enginebay.data import DataSet
from enginebay.errors import UsageError
from enginebay.models import BoundModel, bind, shapes_of
from enginebay.operations.lowering import get_backend
from enginebay.operations.rewrite_model import find_sets
from enginebay.params import BackendParams
from enginebay.sources import ModelSource, find_model

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import Task


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a deployment.

    Attributes:
        backend: The backend that converts and runs the model.
        params: The backend's parameters.
        export: The options of the export.
        verify: The options of the verification.
        dynamic: The dynamic dimensions; None for the dimensions that the shapes in ``params`` make
            dynamic.
        data: An :class:`enginebay.DataSet`, or an argument for one; None without data.
        codebase_config: The config's section for model sources; None without this section.
        values: The config as plain data, for rewriters; None without a config.
        notes: Keys of the config that have no effect, with the reason.
    """

    backend: Backend
    params: BackendParams
    export: ExportOptions
    verify: VerifyOptions
    dynamic: Mapping[str, Any] | Sequence[str] | None = None
    data: Any = None
    codebase_config: Mapping[str, Any] | None = None
    values: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def precision(self) -> str:
        """The coarsest precision that the parameters allow."""
        return self.backend.allowed_precision(self.params)

    def find_model(self, model: object, args: object) -> ModelSource:
        """Return a model's source; pass ``codebase_config`` and input shapes to plugins."""
        return find_model(model, self.codebase_config, self.params.input_shapes or shapes_of(args))

    def bind_inputs(
        self, source: ModelSource, args: object, data: DataSet | None, task: Task | None
    ) -> tuple[BoundModel, Task | None]:
        """Bind a model to example inputs.

        The example inputs are ``args``. If ``args`` is None, they are the example of the model
        source or, if it has none, the first item of the data.

        Returns:
            The bound model, and the task with the names and dtypes of the model's inputs and
            outputs.

        Raises:
            UsageError: The task does not fit the model.
        """
        if args is None and source.example_inputs is None and data is not None:
            args = next(iter(data)).inputs
        bound = bind(
            source,
            args,
            input_names=self.export.input_names,
            output_names=self.export.output_names,
            dynamic=self.dynamic,
            input_shapes=self.params.input_shapes,
            min_shapes=self.params.min_shapes,
            max_shapes=self.params.max_shapes,
        )
        if task is None:
            return bound, None
        return bound, task.fit(bound.open_inputs, bound.outputs)

    def open_data(self) -> DataSet | None:
        """Return the data set, or None without data; a calibrated precision requires a data set.

        Raises:
            ParamsError: There is no data, but the precision requires calibration.
            UsageError: The data cannot be used; or the precision requires calibration and the model
                is cut: no data set has the inputs of the later parts.
        """
        has_data = self.data is not None
        self.backend.check_data(self.params, has_data=has_data)
        precision = self.backend.calibrated_precision(self.params)
        if self.export.cuts and precision:
            raise UsageError(
                f"a model that is cut into parts cannot be calibrated for {precision}: "
                "no data set has the inputs of the later parts",
                hint="leave out the cuts, or deploy the parts one by one",
            )
        return DataSet.of(self.data) if has_data else None


def resolve_settings(
    config: Mapping[str, object] | str | Path | None,
    *,
    backend: str | None = None,
    params: BackendParams | Mapping[str, object] | None = None,
    precision: str | None = None,
    dynamic: Mapping[str, object] | Sequence[str] | None = None,
    data: object = None,
    export: ExportOptions | Mapping[str, object] | None = None,
    verify: VerifyOptions | Mapping[str, object] | None = None,
) -> Settings:
    """Return the settings of a deployment; arguments take precedence over the config.

    Args:
        config: A config or its path; None without a config.
        backend: The backend's name; None for the backend in the config or, without one, the
            default backend.
        params: Parameters by name, which take precedence over the parameters in the config; an
            instance of ``BackendParams`` replaces all parameters in the config.
        precision: The same as ``params={"precision": …}``.
        dynamic: The dynamic dimensions; None for the dynamic dimensions in the config.
        data: A data set or an argument for one; None for the data in the config.
        export: Export options, or a mapping of them; fields with their default value are taken from
            the config.
        verify: Verification options, or a mapping of them; fields with their default value are
            taken from the config.

    Raises:
        ConfigError: The config is invalid, or for another backend.
        BackendUnavailableError: The backend cannot be used.
        ParamsError: A parameter or an option is unknown or invalid.
        UsageError: Two different precisions are set; or ``dynamic`` is set together with smallest
            or largest shapes.
    """
    export, verify = ExportOptions.of(export), VerifyOptions.of(verify)
    check_timeout(verify.timeout)
    params = _with_precision(params, precision)
    if config is None:
        engine = get_backend(backend or default_backend())
        resolved = engine.params_from(params)
        if dynamic is not None and (resolved.min_shapes or resolved.max_shapes):
            raise UsageError(
                "'dynamic' cannot be combined with 'min_shapes' or 'max_shapes'",
                hint="leave out --dynamic, or --min-shapes and --max-shapes",
            )
        return Settings(
            backend=engine,
            params=resolved,
            export=_resolve_sets(export),
            verify=verify,
            dynamic=dynamic,
            data=data,
        )
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
    return Settings(
        backend=engine,
        params=resolved,
        export=_resolve_sets(merge_options(export, sections.export)),
        verify=merge_options(verify, sections.verify),
        dynamic=open_axes(sections.ir, resolved) if dynamic is None else dynamic,
        data=sections.calib.data if data is None else data,
        codebase_config=values.get("codebase_config"),
        values=values,
        notes=tuple(problems.notes),
    )


def check_timeout(seconds: float) -> None:
    """Check that a time limit is a positive number.

    Raises:
        UsageError: The limit is 0, negative or NaN.
    """
    if not seconds > 0:
        raise UsageError(f"invalid timeout of {seconds:g} seconds: expected more than 0")


def _with_precision(
    params: BackendParams | Mapping[str, object] | None, precision: str | None
) -> BackendParams | Mapping[str, object] | None:
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


def _resolve_sets(export: ExportOptions) -> ExportOptions:
    return export.replace(rewriters=find_sets(export.rewriters))
