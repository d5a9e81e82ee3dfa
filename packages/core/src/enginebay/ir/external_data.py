"""Check of an ONNX model's external data: the files that contain the weights.

Every engine has its own loader for these files, and several loaders have opened files outside the
model's folder (CVEs of 2022, 2024, 2025 and 2026). The paths are therefore checked here before any
engine reads the model.
"""

from __future__ import annotations

from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto, TensorProto


def external_files(model: ModelProto, path: Path) -> tuple[Path, ...]:
    """Return the files with the model's weights, in the order of their first use.

    Args:
        model: The model, loaded without its external data.
        path: The model's file; external data must be in its folder or a subfolder.

    Raises:
        ModelSourceError: A data file is missing or too short, or its path is absolute or leaves
            the folder (by ``..`` or a link). The message contains the name of the tensor.
    """
    files: dict[str, Path] = {}  # by location: one file contains the data of many tensors
    for tensor in find_tensors(model):
        if tensor.data_location == tensor.EXTERNAL:
            location = _data_location(tensor, path)
            if location not in files:
                files[location] = _resolve_data_file(tensor, location, path)
            _check_size(tensor, files[location], path)
    return tuple(dict.fromkeys(files.values()))


def find_tensors(message: Any) -> Iterator[TensorProto]:
    """Yield every tensor in an ONNX protobuf message, including its nested messages."""
    # All fields, and not only the known ones (initializers, attributes, subgraphs, functions,
    # training graphs …), since a later ONNX may add a field with tensors.
    from google.protobuf.message import Message  # type: ignore[import-untyped]  # no stubs
    from onnx import TensorProto

    if isinstance(message, TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                yield from find_tensors(part)


def _data_location(tensor: TensorProto, path: Path) -> str:
    entries = [entry for entry in tensor.external_data if entry.key == "location"]
    if len(entries) != 1:
        found = f"expected one location for its data, found {len(entries)}"
        raise _tensor_error(tensor, path, found)
    return str(entries[0].value)


def _resolve_data_file(tensor: TensorProto, location: str, path: Path) -> Path:
    windows = PureWindowsPath(location)
    # ONNX Runtime uses a star for a location that is an address in memory.
    is_odd = not location or "\0" in location or "\\" in location or "*" in location
    if is_odd or windows.drive or windows.root or ".." in windows.parts:
        found = f"expected a data file in the model's folder, found '{location}'"
        raise _tensor_error(tensor, path, found)
    file = path.parent / location
    if not file.resolve().is_relative_to(path.parent.resolve()):
        found = f"its data file '{location}' is a link out of the model's folder"
        raise _tensor_error(tensor, path, found)
    if not file.is_file():
        raise _tensor_error(tensor, path, f"its data file '{location}' does not exist")
    return file


def _check_size(tensor: TensorProto, file: Path, path: Path) -> None:
    fields = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = (
            int(fields.get("offset") or 0),
            int(fields.get("length") or _byte_size(tensor)),
        )
    except (ValueError, KeyError) as err:
        found = "the offset or length of its data is not a number"
        raise _tensor_error(tensor, path, found) from err
    size = file.stat().st_size
    if offset < 0 or length < 0 or offset + length > size:
        expected = f"expected {length} bytes at offset {offset} of '{file.name}'"
        raise _tensor_error(tensor, path, f"{expected}, found a file of {size} bytes")


def _byte_size(tensor: TensorProto) -> int:
    from math import prod

    from onnx.helper import tensor_dtype_to_np_dtype

    itemsize: int = tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return prod(map(int, tensor.dims)) * itemsize


def _tensor_error(tensor: TensorProto, path: Path, found: str) -> ModelSourceError:
    return ModelSourceError(f"'{path.name}': tensor '{tensor.name}': {found}")
