"""Reading of an ONNX file as an IR, without its weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.environment import require
from enginebay.errors import ModelSourceError
from enginebay.ir.external_data import external_files
from enginebay.ir.file_description import KEY, FileDescription, read_description
from enginebay.ir.local_functions import check_functions, inline_functions
from enginebay.ir.model import IRModel
from enginebay.ir.model_file import check_file
from enginebay.ir.onnx_outline import read_outline
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    import onnx


def read_onnx(path: str | Path) -> IRModel:
    """Read the inputs, outputs and files of an ONNX model, and check the external data.

    Args:
        path: The ``.onnx`` file. External data must be in its folder or a subfolder.

    Returns:
        The IR. Its inputs do not include initializers.

    Raises:
        ModelSourceError: The file is missing, empty, truncated or not ONNX, or its external data
            is missing, too short or outside its folder.
        MissingDependencyError: onnx is not installed or older than 1.21.
    """
    path = Path(path).absolute()
    return describe_proto(parse_onnx(path), path)


def describe_proto(proto: onnx.ModelProto, path: Path) -> IRModel:
    """Return the IR of a parsed ONNX file, and check its external data; see :func:`read_onnx`."""
    _check_complete(proto, path)
    check_functions(proto, path)
    initializers = {tensor.name for tensor in proto.graph.initializer}
    initializers |= {tensor.values.name for tensor in proto.graph.sparse_initializer}
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    description = read_description(metadata.get(KEY, ""), path) or FileDescription()
    return IRModel(
        kind="onnx",
        path=path,
        files=(path, *external_files(proto, path)),
        inputs=tuple(
            _read_spec(value) for value in proto.graph.input if value.name not in initializers
        ),
        outputs=tuple(_read_spec(value) for value in proto.graph.output),
        opset=next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), None),
        example_shapes=description.example_shapes,
    )


def parse_onnx(path: Path) -> onnx.ModelProto:
    """Parse an ONNX file without the bytes of its initializers."""
    require("onnx")
    check_file(path)
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs

    try:
        try:
            return onnx.ModelProto.FromString(read_outline(path))
        except (ValueError, OSError, DecodeError):  # onnx's own reader raises a better error
            return onnx.load(path, load_external_data=False)
    except DecodeError as err:
        raise ModelSourceError(f"'{path}' is damaged or not an ONNX model: {err}") from err


def read_inlined(path: Path) -> onnx.ModelProto | None:
    """Read an ONNX file, and put the bodies of its functions in place of their calls.

    Returns:
        The model, whose external data is not loaded; None if the file has no functions.

    Raises:
        ConversionError: A function has another opset than the file.
    """
    import onnx

    if not parse_onnx(path).functions:
        return None
    return inline_functions(onnx.load(path, load_external_data=False))


def _check_complete(proto: onnx.ModelProto, path: Path) -> None:
    # A truncated file can be a valid protobuf message that lacks fields.
    missing = [
        part
        for part, is_present in {
            "IR version": proto.ir_version,
            "graph": proto.HasField("graph") and (proto.graph.node or proto.graph.initializer),
            "outputs": proto.graph.output,
            "operator set": proto.opset_import,
        }.items()
        if not is_present
    ]
    if missing:
        message = f"'{path}' is damaged or not an ONNX model: it has no {' and no '.join(missing)}"
        raise ModelSourceError(message)


def _read_spec(value: onnx.ValueInfoProto) -> TensorSpec:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        holds_maps = value.type.sequence_type.elem_type.HasField("map_type")
        named = (kind or "unknown").removesuffix("_type")
        return TensorSpec(value.name, "sequence of maps" if holds_maps else named, None)
    tensor = value.type.tensor_type
    dims = None
    if tensor.HasField("shape"):
        dims = tuple(_read_dim(value.name, i, dim) for i, dim in enumerate(tensor.shape.dim))
    return TensorSpec(value.name, read_dtype(tensor.elem_type), dims)


def _read_dim(name: str, axis: int, dim: onnx.TensorShapeProto.Dimension) -> int | str:
    # Some exporters write -1 for an open size, and engines read it so; 0 is a size to them.
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    # torch's exporter names a size that it found to be constant by its digits.
    if dim.dim_param.isdecimal():
        return int(dim.dim_param)
    # Unique for a dimension without a name, such as "?": equal names mean equal sizes.
    is_named = any(map(str.isalnum, dim.dim_param))
    return dim.dim_param if is_named else f"{name}_{axis}"


def read_dtype(element: int) -> str:
    """Return the NumPy name of ONNX's number of a dtype; ``unknown`` if there is none."""
    import onnx

    if element == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element).name)
    except (KeyError, TypeError):
        return "unknown"
