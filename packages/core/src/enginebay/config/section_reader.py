"""Reading a config's sections, checked key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.config.options import ExportOptions, Options, VerifyOptions, merge_options
from enginebay.config.partition_section import read_cuts
from enginebay.config.places import Table
from enginebay.config.section_fields import read_section
from enginebay.config.sections import (
    EXTENSION,
    SCHEMA,
    SECTIONS,
    CalibSection,
    CodebaseSection,
    IRSection,
    Sections,
)

if TYPE_CHECKING:
    from enginebay.config.problems import Problems

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
        export=_export(given, ir, problems),
        verify=_options(VerifyOptions, given, "verify_config", problems),
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
    section = read_section(IRSection, given.get(name, {}), (name,), problems)
    if name == "ir_config" or name not in given:
        return section
    if section.type not in (None, "onnx"):
        problems.wrong(
            (name, "type"),
            f"'onnx_config' is for onnx, found {section.type!r}",
            "call the section ir_config",
        )
    return msgspec.structs.replace(section, type="onnx")


def _export(given: _Given, ir: IRSection, problems: Problems) -> ExportOptions:
    """The options of ``export_config``, with what other toolkits' sections say of the rest."""
    others = ExportOptions(
        ir=ir.type,
        opset=ir.opset_version,
        input_names=ir.input_names or None,
        output_names=ir.output_names or None,
        cuts=read_cuts(given.get("partition_config", {}), problems),
    )
    return merge_options(_options(ExportOptions, given, "export_config", problems), others)


def _options(kind: type[Options], given: _Given, name: str, problems: Problems) -> Options:
    return read_section(kind, given.get(name, {}), (name,), problems)


def _notes(given: _Given, name: str, ir: IRSection) -> Iterator[str]:
    """The keys that have no effect, and why."""
    if name == "ir_config" and "onnx_config" in given:
        yield "onnx_config has no effect: the config has ir_config too, which wins"
    for key, reason in _NO_EFFECT.items():
        if getattr(ir, key) != getattr(IRSection(), key):
            yield f"{name}.{key} has no effect: {reason}"


def _check_codebase(given: _Given, problems: Problems) -> None:
    name = "codebase_config"
    read_section(CodebaseSection, given.get(name, {}), (name,), problems)
    if name in given and "type" not in given[name]:
        problems.wrong((name,), f"'{name}' needs 'type': wanted str")


def _calib(given: _Given, problems: Problems) -> CalibSection:
    name = "calib_config"
    section = read_section(CalibSection, given.get(name, {}), (name,), problems)
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
