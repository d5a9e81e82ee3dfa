"""Reading a config's sections, checked key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.config.places import Table
from enginebay.config.sections import (
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
    from enginebay.config.problems import Problems

Section = TypeVar("Section", bound=msgspec.Struct)
_Given = Mapping[str, Mapping[str, Any]]  # the keys and values of each section

#: Keys of an IR section that other toolkits need and today's engines do not, with the reason.
_NO_EFFECT = {
    "optimize": "engines optimise the graph when they load it",
    "strip_doc_string": "exporters of today write none",
    "verbose": "the command line has --traceback",
}


def read_sections(config: Mapping[str, Any], problems: Problems) -> Sections:
    """Read the sections of a config.

    Args:
        config: The config. One that :func:`enginebay.config.read` returned knows which names its
            files use as variables; in any other every name whose value is not a dict is one.
        problems: The list for everything that is wrong or has no effect.
    """
    for name, value in config.items():
        if name in (*SECTIONS, SCHEMA) or str(name).startswith((EXTENSION, "_")):
            continue
        if isinstance(config, Table):
            is_variable = name in config.variables
        else:
            is_variable = not isinstance(value, Mapping)
        if not is_variable:
            problems.unknown((name,), SECTIONS)
    given = {name: _mapping(config, name, problems) for name in SECTIONS if name in config}
    ir_name = "ir_config" if "ir_config" in given else "onnx_config"
    ir = _ir(given, ir_name, problems)
    problems.notes.extend(_notes(given, ir_name, ir))
    _check_codebase(given, problems)
    return Sections(
        backend=_backend(given, problems),
        backend_config={k: v for k, v in given.get("backend_config", {}).items() if k != "type"},
        ir=ir,
        partition=_partition(given, problems),
        calib=_calib(given, problems),
    )


def _mapping(config: Mapping[str, Any], name: str, problems: Problems) -> Mapping[str, Any]:
    section = config[name]
    if isinstance(section, Mapping):
        return section
    problems.wrong((name,), f"'{name}' is a {type(section).__name__}: wanted keys and values")
    return {}


def _backend(given: _Given, problems: Problems) -> str | None:
    name = given.get("backend_config", {}).get("type")
    if isinstance(name, str | None):
        return name
    problems.wrong(("backend_config", "type"), f"the backend {name!r} is not a name")
    return None


def _ir(given: _Given, name: str, problems: Problems) -> IRSection:
    section = _read(IRSection, given, name, problems)
    if name == "ir_config" or name not in given:
        return section
    if section.type not in (None, "onnx"):
        problems.wrong(
            (name, "type"),
            f"'onnx_config' is for onnx, found {section.type!r}",
            "call the section ir_config",
        )
    return msgspec.structs.replace(section, type="onnx")


def _notes(given: _Given, name: str, ir: IRSection) -> Iterator[str]:
    """The keys that have no effect, and why."""
    if name == "ir_config" and "onnx_config" in given:
        yield "onnx_config has no effect: the config has ir_config too, which wins"
    for key, reason in _NO_EFFECT.items():
        if getattr(ir, key) != getattr(IRSection(), key):
            yield f"{name}.{key} has no effect: {reason}"


def _check_codebase(given: _Given, problems: Problems) -> None:
    name = "codebase_config"
    _read(CodebaseSection, given, name, problems)
    if name in given and "type" not in given[name]:
        problems.wrong((name,), f"'{name}' needs 'type': wanted str")


def _partition(given: _Given, problems: Problems) -> PartitionSection:
    name = "partition_config"
    foreign = {"type", "partition_cfg"} & given.get(name, {}).keys()
    if not foreign:
        return _read(PartitionSection, given, name, problems)
    if given[name].get("apply_marks", True):
        problems.wrong(
            (name, min(foreign)),
            "Enginebay cuts a model at its marks, and keeps all parts",
            "write partition_config = dict(cuts=['MARK', …])",
        )
    return PartitionSection()


def _calib(given: _Given, problems: Problems) -> CalibSection:
    name = "calib_config"
    section = _read(CalibSection, given, name, problems)
    if section.create_calib:
        problems.notes.append(
            f"{name}.create_calib: the data set is what deploy is given with --data (data=…)"
        )
    elif (section.data or "").endswith((".h5", ".hdf5")):
        problems.wrong(
            (name, "calib_file"),
            f"'{section.data}' is no data set: wanted an .npz file, a folder, or file.py:attr",
            "write it with numpy.savez, one array for each input",
        )
    return section


def _read(kind: type[Section], given: _Given, name: str, problems: Problems) -> Section:
    """One section; a value that is not valid stays at its default."""
    fields = declared_fields(kind)
    values: dict[str, Any] = {}
    for key, value in given.get(name, {}).items():
        if key in fields:
            field = msgspec.structs.replace(fields[key], owner=name)
            with problems.collecting((name, key)):
                values[key] = field.default if value is None else field.convert(value)
        elif kind.__struct_config__.forbid_unknown_fields:
            problems.unknown((name, key), fields)
    return kind(**values)
