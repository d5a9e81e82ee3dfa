"""The sections of a deploy config, except ``backend_config``, whose keys the backend declares.

``read_section`` reads a section by its declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from enginebay.config.options import OPTIONS, ExportOptions, VerifyOptions
from enginebay.params import declared_fields

if TYPE_CHECKING:
    from enginebay.config.problems import Problems

KeyPath = tuple[str | int, ...]
Section = TypeVar("Section", bound=msgspec.Struct)

Size = Annotated[int, msgspec.Meta(ge=1)]


class IRSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``ir_config`` or ``onnx_config``: options of the export.

    Attributes:
        type: The IR; by default the backend's IRs are tried in order of preference. In a section
            named ``onnx_config``, the IR is always ``onnx``.
        opset_version: The version of the ONNX operator set; by default the exporter's default.
        input_names: Names of the inputs, instead of the parameter names of ``forward``.
        output_names: Names of the outputs, instead of ``output``, ``output_0`` … or the keys of the
            result.
        input_shape: Width and height of the image, for a model with one input: ``[W, H]``.
        dynamic_axes: Dynamic dimensions: input → axis → name, or input → list of axes. Entries for
            outputs are ignored: exporters derive the dynamic dimensions of outputs.
        save_file: Name of the engine's files; the suffix is replaced by that of the backend.
        export_params: Must be true: every IR contains the weights.
        keep_initializers_as_inputs: Must be false: weights are not inputs.
        optimize: No effect: engines optimise the graph when they load it.
        strip_doc_string: No effect.
        verbose: No effect.
    """

    type: Literal["onnx", "torchscript", "exported_program"] | None = None
    opset_version: Size | None = None
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    input_shape: tuple[Size, Size] | None = None
    dynamic_axes: Mapping[str, Mapping[int, str] | tuple[int, ...]] = {}
    save_file: str | None = None
    export_params: Literal[True] = True
    keep_initializers_as_inputs: Literal[False] = False
    optimize: bool = True
    strip_doc_string: bool = True
    verbose: bool = False


class PartitionSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``partition_config``: how to divide the model into parts, with one engine for each part.

    Attributes:
        apply_marks: False if the model must not be divided.
        type: MMDeploy's name for the partition. It has no effect if ``partition_cfg`` is set;
            otherwise it is an error.
        partition_cfg: The parts of the model; each entry has the keys of :class:`PartSection`.
    """

    apply_marks: bool = True
    type: str | None = None
    partition_cfg: tuple[Mapping[str, Any], ...] = ()


class PartSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of ``partition_cfg``: a part of the model between marks.

    A mark is a name for tensors, here for the inputs or the outputs of a function.

    Attributes:
        start: Names of the marks at the start of the part, such as ``head:input``.
        end: Names of the marks at the end of the part, such as ``head:output``.
        save_file: No effect: the files of each part have a separate folder.
        output_names: No effect: tensors between parts have the names of their marks.
        dynamic_axes: No effect: dynamic dimensions follow from those of the model.
    """

    start: tuple[str, ...] | str = ()
    end: tuple[str, ...] | str = ()
    save_file: str | None = None
    output_names: tuple[str, ...] = ()
    dynamic_axes: Mapping[str, Any] = {}


class CalibSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``calib_config``: the calibration data of a quantised engine.

    Attributes:
        calib_file: The data set, in the form of the flag ``--data``.
        create_calib: True if MMDeploy would write ``calib_file`` from its own data set; then
            ``--data`` must specify the data set.
    """

    calib_file: str | None = None
    create_calib: bool = False

    @property
    def data(self) -> str | None:
        """The data set in ``calib_file``; None without a data set or with ``create_calib``."""
        return None if self.create_calib else self.calib_file


class CodebaseSection(msgspec.Struct, frozen=True, kw_only=True):
    """``codebase_config``: the codebase of the model, such as MMPretrain.

    A codebase may define further keys.

    Attributes:
        type: The scheme of a plugin's model source; it applies to a MODEL without a scheme.
        task: The codebase's name for the model's task.
    """

    type: str = ""
    task: str | None = None


#: The type of each section; the backend's params class declares the keys of ``backend_config``.
SECTIONS: dict[str, type[msgspec.Struct] | None] = {
    "backend_config": None,
    "onnx_config": IRSection,
    "ir_config": IRSection,
    **OPTIONS,
    "codebase_config": CodebaseSection,
    "partition_config": PartitionSection,
    "calib_config": CalibSection,
}
#: Sections with this prefix belong to extensions, and are not checked.
EXTENSION = "ext_"
#: The key in a JSON file from which editors take the schema.
SCHEMA = "$schema"


class Sections(msgspec.Struct, frozen=True, kw_only=True):
    """The checked sections of a config.

    Attributes:
        backend: The backend's name; None if the config names none.
        backend_config: The backend's section without ``type``, not yet checked.
        ir: ``ir_config`` or ``onnx_config``, the export options of other toolkits.
        export: Options of the export, from ``export_config`` and the sections of other toolkits.
        verify: Options of the verification.
        calib: The section about calibration data.
    """

    backend: str | None = None
    backend_config: Mapping[str, Any] = {}
    ir: IRSection = IRSection()
    export: ExportOptions = ExportOptions()
    verify: VerifyOptions = VerifyOptions()
    calib: CalibSection = CalibSection()


def read_section(
    kind: type[Section], content: Mapping[str, object], path: KeyPath, problems: Problems
) -> Section:
    """Convert one section to a struct; an invalid value is replaced by the field's default.

    Args:
        kind: The struct class of the section.
        content: The section's keys and values.
        path: The keys and indices that lead from the config to the section.
        problems: Collects the errors.
    """
    fields = declared_fields(kind)
    values: dict[str, Any] = {}
    for key, value in content.items():
        if key in fields:
            field = msgspec.structs.replace(fields[key], owner=join_keys(path))
            with problems.collecting((*path, key)):
                # None means the default, as in the constructor of params.
                values[key] = field.default if value is None else field.convert(value)
        elif kind.__struct_config__.forbid_unknown_fields:
            owners = [name for name, cls in OPTIONS.items() if key in cls.__struct_fields__]
            hint = f"write {key} in {owners[0]}" if owners else None
            problems.unknown((*path, key), fields, hint)
    return kind(**values)


def join_keys(path: KeyPath) -> str:
    """Join keys and indices with dots.

    Example:
        >>> join_keys(("partition_config", "partition_cfg", 0, "end"))
        'partition_config.partition_cfg.0.end'
    """
    return ".".join(map(str, path))
