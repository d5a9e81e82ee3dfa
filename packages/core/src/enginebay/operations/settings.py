"""What a deployment is told: by its caller, and for the rest by a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from enginebay.backend import Backend, default_backend, get_backend
from enginebay.config import Problems, Sections, Table, backend_params, plain, read, read_sections
from enginebay.config import dynamic_shapes as open_axes
from enginebay.errors import ConfigError, UsageError
from enginebay.exporters import ExporterName
from enginebay.ir import IRKind
from enginebay.params import BackendParams


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a deployment is told.

    Attributes:
        engine: The backend.
        params: Its parameters.
        ir: The IR; None for the backend's preferred ones in order.
        exporter: The ONNX exporter; None for the first that works.
        opset: The ONNX operator set; None for the exporter's own.
        input_names: None for the parameter names of ``forward``.
        output_names: None for the exporter's own.
        dynamic_shapes: None for the dimensions where the params' shapes differ.
        partition: Names of marks to cut the model at.
        codebase_config: Whose model it is, for a model source; None for nobody's in particular.
        values: The config as rewriters see it.
        notes: What the config says to no effect.
    """

    engine: Any
    params: BackendParams
    ir: IRKind | None = None
    exporter: ExporterName | None = None
    opset: int | None = None
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    dynamic_shapes: Mapping[str, Any] | None = None
    partition: Sequence[str] = ()
    codebase_config: Mapping[str, Any] | None = None
    values: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def settle(
    config: Mapping[str, Any] | str | Path | None,
    *,
    backend: str | None = None,
    params: BackendParams | Mapping[str, Any] | None = None,
    partition: Sequence[str] = (),
    **given: Any,
) -> Settings:
    """The settings of a deployment: what is given wins over the config.

    Args:
        config: A config or the path of one; None for none.
        backend: The backend's name.
        params: Fields that win over the config's; an instance replaces all of them.
        partition: Names of marks.
        **given: Fields of :class:`Settings`; None is not given.

    Raises:
        ConfigError: The config is wrong, or for another backend.
        BackendUnavailableError: The backend cannot be used.
        ParamsError: The parameters do not fit the backend.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if config is None:
        engine = get_backend(backend or default_backend())
        return Settings(
            engine=engine, params=engine.params_from(params), partition=partition, **chosen
        )
    table = read(config) if isinstance(config, str | Path) else config
    if not isinstance(table, Mapping):
        raise UsageError(f"config is a {type(config).__name__}: wanted a mapping or a path")
    problems = Problems()
    sections = sections_of(table, problems)
    engine = get_backend(backend or sections.backend or default_backend())
    if sections.backend not in (None, engine.name):
        problems.wrong(
            ("backend_config", "type"),
            f"the config is for backend '{sections.backend}', not '{engine.name}'",
            f"leave --backend {engine.name} out, or change the config",
        )
        locate(problems, table).raise_first()
    notes = list(sections.notes)
    asked = _params(engine, params, sections, problems, notes)
    locate(problems, table).raise_first()
    values = plain(table)
    return Settings(
        engine=engine,
        params=asked,
        partition=partition or (sections.partition.apply_marks and sections.partition.cuts) or (),
        codebase_config=values.get("codebase_config"),
        values=values,
        notes=tuple(notes),
        **_from_ir(sections, asked) | chosen,
    )


def sections_of(config: Mapping[str, Any], problems: Problems) -> Sections:
    """A config's sections, checked; what is wrong goes to ``problems``."""
    helpers = config.helpers if isinstance(config, Table) else None
    return read_sections(config, problems, helpers=helpers)


def locate(problems: Problems, config: Mapping[str, Any]) -> Problems:
    """The same problems with the places in the file that their messages start with."""
    return Problems(_located(problem, config) for problem in problems)


def _located(problem: ConfigError, config: Mapping[str, Any]) -> ConfigError:
    place = config.find(problem.path) if isinstance(config, Table) else None
    message = f"{place}: {problem}" if place else str(problem)
    return ConfigError(message, hint=problem.hint, path=problem.path)


def _params(
    engine: Backend,
    given: BackendParams | Mapping[str, Any] | None,
    sections: Sections,
    problems: Problems,
    notes: list[str],
) -> BackendParams:
    over: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    found = backend_params(engine.Params, sections, problems, over=over, notes=notes)
    return engine.params_from(given) if isinstance(given, BackendParams) else found


def _from_ir(sections: Sections, params: BackendParams) -> dict[str, Any]:
    ir = sections.ir
    return {
        "ir": ir.type,
        "exporter": ir.exporter,
        "opset": ir.opset_version,
        "input_names": ir.input_names or None,
        "output_names": ir.output_names or None,
        "dynamic_shapes": open_axes(ir, params),
    }
