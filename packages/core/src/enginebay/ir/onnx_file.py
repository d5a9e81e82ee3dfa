"""An ONNX file as an IR, without loading its weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.environment import require
from enginebay.errors import ModelSourceError
from enginebay.ir.external_data import external_files
from enginebay.ir.file_description import KEY, Description, read_description
from enginebay.ir.model import IRModel, check_regular
from enginebay.ir.onnx_outline import read_outline
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    import onnx


def read_onnx(path: str | Path) -> IRModel:
    """Read an ONNX file and check where its weights are.

    Args:
        path: The ``.onnx`` file. External data must lie in its folder or below.

    Returns:
        The model's inputs, outputs and files. Initializers are not inputs.

    Raises:
        ModelSourceError: The file is missing, empty, truncated or not ONNX, or its external data
            is missing, too short or outside its folder.
        MissingDependencyError: onnx is not installed or older than 1.21.
    """
    path = Path(path).absolute()
    require("onnx")
    check_regular(path)
    proto = _parse(path)
    _check(proto, path)
    initializers = {tensor.name for tensor in proto.graph.initializer}
    initializers |= {tensor.values.name for tensor in proto.graph.sparse_initializer}
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    description = read_description(metadata.get(KEY, ""), path) or Description()
    return IRModel(
        kind="onnx",
        path=path,
        files=(path, *external_files(proto, path)),
        inputs=tuple(_spec(value) for value in proto.graph.input if value.name not in initializers),
        outputs=tuple(_spec(value) for value in proto.graph.output),
        opset=next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), None),
        example_shapes=description.example_shapes,
    )


def _parse(path: Path) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs

    try:
        try:
            return onnx.ModelProto.FromString(read_outline(path))
        except (ValueError, OSError, DecodeError):  # onnx's own reading says what is wrong
            return onnx.load(path, load_external_data=False)
    except FileNotFoundError as err:
        raise ModelSourceError(f"no file '{path}'") from err
    except OSError as err:
        raise ModelSourceError(f"'{path}' cannot be read: {err.strerror}") from err
    except DecodeError as err:
        raise ModelSourceError(f"'{path}' is damaged or not an ONNX model: {err}") from err


def _check(proto: onnx.ModelProto, path: Path) -> None:
    """Empty and cut files are valid protobuf messages, with things missing."""
    if not path.stat().st_size:
        raise ModelSourceError(f"'{path}' is empty")
    missing = [
        what
        for what, there in {
            "IR version": proto.ir_version,
            "graph": proto.HasField("graph") and (proto.graph.node or proto.graph.initializer),
            "outputs": proto.graph.output,
            "operator set": proto.opset_import,
        }.items()
        if not there
    ]
    if missing:
        message = f"'{path}' is damaged or not an ONNX model: it has no {' and no '.join(missing)}"
        raise ModelSourceError(message)


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        # sequence, optional, map, sparse tensor: named here, refused by who cannot take them.
        return TensorSpec(value.name, (kind or "unknown").removesuffix("_type"), None)
    tensor = value.type.tensor_type
    dims = None
    if tensor.HasField("shape"):
        dims = tuple(_dim(value.name, i, dim) for i, dim in enumerate(tensor.shape.dim))
    return TensorSpec(value.name, _dtype(tensor.elem_type), dims)


def _dim(name: str, axis: int, dim: Any) -> int | str:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return dim.dim_param or f"{name}_{axis}"


def _dtype(element: int) -> str:
    import onnx

    if element == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element).name)
    except (KeyError, TypeError):
        return "unknown"
