"""The sections of a deploy config, but for the backend's, whose keys the backend declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from enginebay.config.options import OPTIONS, ExportOptions, VerifyOptions

Size = Annotated[int, msgspec.Meta(ge=1)]


class IRSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``ir_config`` or ``onnx_config``: how the model is exported.

    Attributes:
        type: The IR; by default the backend's preferred ones in order, until one works. A section
            called ``onnx_config`` means ``onnx``.
        opset_version: The ONNX operator set; by default the exporter's own.
        input_names: Instead of the parameter names of ``forward``.
        output_names: Instead of ``output``, ``output_0`` … or the keys of the result.
        input_shape: Width and height of the one image that the model takes: ``[W, H]``.
        dynamic_axes: Which dimensions stay open: input → axis → name, or input → list of axes.
            Outputs may stand among them; exporters find those by themselves.
        save_file: The file's name; the artifact's files get the same, with their own suffixes.
        export_params: Only true: weights are part of every IR.
        keep_initializers_as_inputs: Only false: weights are no inputs.
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
    """``partition_config``: where the model is cut into several engines.

    Attributes:
        apply_marks: False leaves the model in one piece.
        type: MMDeploy's name for the partition; no effect.
        partition_cfg: MMDeploy's parts, each with the keys of :class:`PartSection`.
    """

    apply_marks: bool = True
    type: str | None = None
    partition_cfg: tuple[Mapping[str, Any], ...] = ()


class PartSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of ``partition_cfg``: a part of the model between marks.

    Attributes:
        start: Names of the marks that it starts at: ``head:input``, ``head:output``.
        end: Names of the marks that it ends at.
        save_file: No effect: each part has a folder.
        output_names: No effect: tensors between parts are called like their marks.
        dynamic_axes: No effect: open dimensions follow from the model's.
    """

    start: tuple[str, ...] | str = ()
    end: tuple[str, ...] | str = ()
    save_file: str | None = None
    output_names: tuple[str, ...] = ()
    dynamic_axes: Mapping[str, Any] = {}


class CalibSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``calib_config``: what a quantised engine is calibrated with.

    Attributes:
        calib_file: The data set, as ``--data`` takes it.
        create_calib: True where MMDeploy would write ``calib_file`` from a data set of its own:
            then the data set comes with the deployment.
    """

    calib_file: str | None = None
    create_calib: bool = False

    @property
    def data(self) -> str | None:
        """The data set; None where the config brings none."""
        return None if self.create_calib else self.calib_file


class CodebaseSection(msgspec.Struct, frozen=True, kw_only=True):
    """``codebase_config``: whose model it is. Other keys are the codebase's own.

    Attributes:
        type: The scheme of the plugin's model source: a MODEL without one gets it.
        task: What the model does, in the codebase's words.
    """

    type: str = ""
    task: str | None = None


#: The type of each section; ``backend_config`` has its keys from the backend's params class.
SECTIONS: dict[str, type[msgspec.Struct] | None] = {
    "backend_config": None,
    "onnx_config": IRSection,
    "ir_config": IRSection,
    **OPTIONS,
    "codebase_config": CodebaseSection,
    "partition_config": PartitionSection,
    "calib_config": CalibSection,
}
#: Sections whose names start like this are an extension's own, and never looked at.
EXTENSION = "ext_"
#: What editors look for in a JSON file.
SCHEMA = "$schema"


class Sections(msgspec.Struct, frozen=True, kw_only=True):
    """A config's sections, checked.

    Attributes:
        backend: The backend's name; None if the config names none.
        backend_config: Its section without the name, as it was written.
        ir: The section of another toolkit about the IR.
        export: How the model is exported, by all the sections that say something of it.
        verify: How the artifact is compared with its model.
        calib: What a quantised engine is calibrated with.
    """

    backend: str | None = None
    backend_config: Mapping[str, Any] = {}
    ir: IRSection = IRSection()
    export: ExportOptions = ExportOptions()
    verify: VerifyOptions = VerifyOptions()
    calib: CalibSection = CalibSection()
