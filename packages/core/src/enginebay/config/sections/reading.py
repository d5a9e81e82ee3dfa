"""A config's sections, checked key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.config.sections.kinds import (
    EXTENSION,
    SCHEMA,
    SECTIONS,
    CalibSection,
    CodebaseSection,
    IRSection,
    PartitionSection,
    Sections,
)
from enginebay.params import declared_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from enginebay.config.sections.problems import Problems
    from enginebay.params import Field

Kind = TypeVar("Kind", bound=msgspec.Struct)

#: Keys of an IR section that other tool kits need, and engines of today do not.
_NO_EFFECT = {
    "optimize": "engines optimise the graph when they load it",
    "strip_doc_string": "exporters of today write none",
    "verbose": "the command line has --traceback",
}


def read_sections(
    config: Mapping[str, Any], problems: Problems, *, helpers: Collection[str] | None = None
) -> Sections:
    """The sections of a config.

    Args:
        config: The config as plain values.
        problems: Takes what is wrong.
        helpers: Names that the config's files use as variables, which are no sections; where
            nobody knows, every name whose value is not a dict is taken for one.
    """
    for name, value in config.items():
        if name in (*SECTIONS, SCHEMA) or str(name).startswith((EXTENSION, "_")):
            continue
        if name not in helpers if helpers is not None else isinstance(value, Mapping):
            problems.unknown((name,), SECTIONS)
    section = _mapping(config, "backend_config", problems)
    backend = section.get("type")
    if backend is not None and not isinstance(backend, str):
        problems.wrong(("backend_config", "type"), f"the backend {backend!r} is not a name")
        backend = None
    given = "ir_config" if "ir_config" in config else "onnx_config"
    codebase = "codebase_config" in config
    return Sections(
        backend=backend,
        backend_config={key: value for key, value in section.items() if key != "type"},
        ir=_ir(config, given, problems),
        codebase=_read(CodebaseSection, config, "codebase_config", problems) if codebase else None,
        partition=_partition(config, problems),
        calib=_read(CalibSection, config, "calib_config", problems),
        notes=tuple(_notes(config, given)),
    )


def _notes(config: Mapping[str, Any], ir: str) -> Iterator[str]:
    """What the sections say to no effect."""
    if ir == "ir_config" and "onnx_config" in config:
        yield "onnx_config has no effect: the config has ir_config too, which wins"
    fields = declared_fields(IRSection)
    for key, value in _mapping(config, ir, None).items():
        if key in _NO_EFFECT and value not in (None, fields[key].default):
            yield f"{ir}.{key} has no effect: {_NO_EFFECT[key]}"


def _ir(config: Mapping[str, Any], name: str, problems: Problems) -> IRSection:
    section = _read(IRSection, config, name, problems)
    if name == "onnx_config" and name in config:
        if section.type not in (None, "onnx"):
            problems.wrong(
                (name, "type"),
                f"'onnx_config' is for onnx, found {section.type!r}",
                "call the section ir_config",
            )
        return msgspec.structs.replace(section, type="onnx")
    return section


def _partition(config: Mapping[str, Any], problems: Problems) -> PartitionSection:
    name = "partition_config"
    foreign = {"type", "partition_cfg"} & _mapping(config, name, None).keys()
    if not foreign:
        return _read(PartitionSection, config, name, problems)
    if config[name].get("apply_marks", True):
        problems.wrong(
            (name, sorted(foreign)[0]),
            "Enginebay cuts a model at its marks, and keeps all parts",
            "write partition_config = dict(cuts=['MARK', …])",
        )
    return PartitionSection()


def _read(kind: type[Kind], config: Mapping[str, Any], name: str, problems: Problems) -> Kind:
    """One section; what is wrong in it is left at its default."""
    fields = declared_fields(kind)
    strict = kind.__struct_config__.forbid_unknown_fields
    values: dict[str, Any] = {}
    for key, value in _mapping(config, name, problems).items():
        if key in fields:
            with problems.collecting((name, key)):
                values[key] = _settled(fields[key], name, value)
        elif strict:
            problems.unknown((name, key), fields)
    for key, field in fields.items():
        if field.required and key not in values:
            if key not in _mapping(config, name, None):
                problems.wrong((name,), f"'{name}' needs '{key}': wanted {field.describe()}")
            values[key] = ""
    return kind(**values)


def _settled(field: Field, section: str, value: Any) -> Any:
    named = msgspec.structs.replace(field, owner=section)
    return named.default if value is None else named.convert(value)


def _mapping(config: Mapping[str, Any], name: str, problems: Problems | None) -> Mapping[str, Any]:
    section = config.get(name, {})
    if isinstance(section, Mapping):
        return section
    if problems is not None:
        problems.wrong((name,), f"'{name}' is a {type(section).__name__}: wanted keys and values")
    return {}
