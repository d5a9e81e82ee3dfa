"""The external data of an ONNX model, checked before anybody follows its paths.

A model file names the files that hold its weights. Every engine follows these names with a loader
of its own, and loaders have followed them out of the model's folder time and again (CVEs of 2022,
2024, 2025 and 2026). So they are checked once, here, before any engine sees the file.
"""

from __future__ import annotations

from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto, TensorProto


def external_files(model: ModelProto, path: Path) -> tuple[Path, ...]:
    """The files that hold weights, in the order in which the model first names them.

    Args:
        model: The model, read without its external data.
        path: Where it was read from; the files must lie in this file's folder or below.

    Raises:
        ModelSourceError: A location is absolute, leaves the folder (by ``..`` or by a link), is
            missing, or holds too little; the message names the tensor.
    """
    files: dict[str, Path] = {}  # by their locations: one file has the data of many tensors
    for tensor in tensors(model):
        if tensor.data_location == tensor.EXTERNAL:
            location = _location(tensor, path)
            if location not in files:
                files[location] = _contained(tensor, location, path)
            _check_size(tensor, files[location], path)
    return tuple(dict.fromkeys(files.values()))


def tensors(message: Any) -> Iterator[TensorProto]:
    """Every tensor anywhere in the model.

    Found by the message's own fields, not by a list of places: initializers, sparse initializers,
    attributes, subgraphs, functions, training graphs, and whatever a later ONNX adds.
    """
    from google.protobuf.message import Message  # type: ignore[import-untyped]  # no stubs
    from onnx import TensorProto

    if isinstance(message, TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                yield from tensors(part)


def _location(tensor: TensorProto, path: Path) -> str:
    entries = [entry for entry in tensor.external_data if entry.key == "location"]
    if len(entries) != 1:
        raise _refused(tensor, path, f"has {len(entries)} locations for its data, wanted one")
    return str(entries[0].value)


def _contained(tensor: TensorProto, location: str, path: Path) -> Path:
    windows = PureWindowsPath(location)
    # A star is ONNX Runtime's mark for "this is an address in memory".
    odd = not location or "\0" in location or "\\" in location or "*" in location
    if odd or windows.drive or windows.root or ".." in windows.parts:
        raise _refused(
            tensor, path, f"keeps its data at '{location}', wanted a file in the model's folder"
        )
    file = path.parent / location
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise _refused(
            tensor, path, f"keeps its data at '{location}', a link out of the model's folder"
        )
    if not file.is_file():
        raise _refused(tensor, path, f"keeps its data at '{location}', and there is no such file")
    return file


def _check_size(tensor: TensorProto, file: Path, path: Path) -> None:
    fields = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = (
            int(fields.get("offset") or 0),
            int(fields.get("length") or _byte_size(tensor)),
        )
    except ValueError as err:
        raise _refused(tensor, path, "has an offset or a length that is no number") from err
    size = file.stat().st_size
    if offset < 0 or length < 0 or offset + length > size:
        found = f"keeps {length} bytes at offset {offset} of '{file.name}', which has {size}"
        raise _refused(tensor, path, found)


def _byte_size(tensor: TensorProto) -> int:
    """The number of bytes that a tensor's elements take."""
    from math import prod

    from onnx.helper import tensor_dtype_to_np_dtype

    itemsize: int = tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return prod(map(int, tensor.dims)) * itemsize


def _refused(tensor: TensorProto, path: Path, found: str) -> ModelSourceError:
    return ModelSourceError(f"'{path.name}': tensor '{tensor.name}' {found}")
