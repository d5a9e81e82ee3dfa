"""Read and check a config's sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from enginebay.config.locations import LocatedDict
from enginebay.config.options import ExportOptions, VerifyOptions, merge_options
from enginebay.config.partition_section import read_cuts
from enginebay.config.sections import (
    EXTENSION,
    SCHEMA,
    SECTIONS,
    CalibSection,
    CodebaseSection,
    IRSection,
    Section,
    Sections,
    read_section,
)

if TYPE_CHECKING:
    from enginebay.config.problems import Problems

_Contents = Mapping[str, Mapping[str, object]]  # the keys and values of each section

#: Keys of an IR section from other toolkits that have no effect here, with the reason.
_NO_EFFECT = {
    "optimize": "engines optimise the graph when they load it",
    "strip_doc_string": "current exporters write no doc strings",
    "verbose": "the command line has --traceback",
}


def read_sections(config: Mapping[str, object], problems: Problems) -> Sections:
    """Read the sections of a config.

    Args:
        config: The config. Its variables are ignored, since they are not sections. A dict from
            :func:`enginebay.config.read_table` lists its variables; in any other dict, a name is a
            variable if its value is not a dict.
        problems: Collects the errors, and notes about keys without effect.
    """
    for name, value in config.items():
        if name in (*SECTIONS, SCHEMA) or str(name).startswith((EXTENSION, "_")):
            continue
        if isinstance(config, LocatedDict):
            is_variable = name in config.variables
        else:
            is_variable = not isinstance(value, Mapping)
        if not is_variable:
            problems.unknown((name,), SECTIONS)
    contents = {
        name: _require_mapping(config, name, problems) for name in SECTIONS if name in config
    }
    ir_name = "ir_config" if "ir_config" in contents else "onnx_config"
    ir = _read_ir(contents, ir_name, problems)
    problems.notes.extend(_list_ineffective(contents, ir_name, ir))
    _check_codebase(contents, problems)
    return Sections(
        backend=_backend_name(contents, problems),
        backend_config={k: v for k, v in contents.get("backend_config", {}).items() if k != "type"},
        ir=ir,
        export=_read_export(contents, ir, problems),
        verify=_read(VerifyOptions, contents, "verify_config", problems),
        calib=_read_calib(contents, problems),
    )


def _require_mapping(
    config: Mapping[str, object], name: str, problems: Problems
) -> Mapping[str, object]:
    section = config[name]
    if isinstance(section, Mapping):
        return section
    problems.wrong((name,), f"'{name}' is a {type(section).__name__}: expected keys and values")
    return {}


def _backend_name(contents: _Contents, problems: Problems) -> str | None:
    name = contents.get("backend_config", {}).get("type")
    if isinstance(name, str | None):
        return name
    problems.wrong(("backend_config", "type"), f"expected the name of a backend, found {name!r}")
    return None


def _read_ir(contents: _Contents, name: str, problems: Problems) -> IRSection:
    section = _read(IRSection, contents, name, problems)
    if name == "ir_config" or name not in contents:
        return section
    if section.type not in (None, "onnx"):
        problems.wrong(
            (name, "type"),
            f"'onnx_config' requires type 'onnx', found {section.type!r}",
            "rename the section to ir_config",
        )
    return msgspec.structs.replace(section, type="onnx")


def _read_export(contents: _Contents, ir: IRSection, problems: Problems) -> ExportOptions:
    """Read ``export_config``; missing options are taken from the sections of other toolkits."""
    others = ExportOptions(
        ir=ir.type,
        opset=ir.opset_version,
        input_names=ir.input_names or None,
        output_names=ir.output_names or None,
        cuts=read_cuts(contents.get("partition_config", {}), problems),
    )
    return merge_options(_read(ExportOptions, contents, "export_config", problems), others)


def _read(kind: type[Section], contents: _Contents, name: str, problems: Problems) -> Section:
    return read_section(kind, contents.get(name, {}), (name,), problems)


def _list_ineffective(contents: _Contents, name: str, ir: IRSection) -> Iterator[str]:
    if name == "ir_config" and "onnx_config" in contents:
        yield "onnx_config has no effect: ir_config overrides it"
    for key, reason in _NO_EFFECT.items():
        if getattr(ir, key) != getattr(IRSection(), key):
            yield f"{name}.{key} has no effect: {reason}"


def _check_codebase(contents: _Contents, problems: Problems) -> None:
    name = "codebase_config"
    _read(CodebaseSection, contents, name, problems)
    if name in contents and "type" not in contents[name]:
        problems.wrong((name,), f"'{name}' requires the key 'type'")


def _read_calib(contents: _Contents, problems: Problems) -> CalibSection:
    name = "calib_config"
    section = _read(CalibSection, contents, name, problems)
    if section.create_calib:
        problems.notes.append(
            f"{name}.create_calib: pass the data set to deploy with --data (data=…)"
        )
    elif (section.data or "").endswith((".h5", ".hdf5")):
        problems.wrong(
            (name, "calib_file"),
            f"'{section.data}' is not a data set: expected an .npz file, a folder, or file.py:attr",
            "write it with numpy.savez, one array for each input",
        )
    return section
