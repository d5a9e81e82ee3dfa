"""An ONNX file's message without the bytes of its weights, which are nearly all of it."""

from __future__ import annotations

from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: The numbers of the fields that lead to them: ModelProto.graph, GraphProto.initializer,
#: TensorProto.raw_data.
_WEIGHTS = (7, 5, 9)
#: How protobuf writes a field of a fixed size: its kind, and the size in bytes.
_FIXED = {1: 8, 5: 4}
_VARINT, _SIZED = 0, 2


def read_outline(path: Path) -> bytes:
    """Return the message of an ONNX file, its initializers without ``raw_data``.

    Raises:
        ValueError: It is empty, or no protobuf message.
        OSError: It cannot be read.
    """
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        try:
            return _outline(data, 0, len(data), _WEIGHTS)
        except IndexError as err:
            raise ValueError(f"'{path}' ends within a number") from err


def _outline(data: mmap, start: int, end: int, way: tuple[int, ...]) -> bytes:
    """Return a message without the fields at the end of a way through it."""
    kept = []
    copied = start
    while start < end:
        key, content = _number(data, start)
        size, content = _size(data, content, key & 7)
        if key == way[0] << 3 | _SIZED:
            kept.append(data[copied:start])
            copied = content + size
            if len(way) > 1:
                inside = _outline(data, content, min(copied, end), way[1:])
                kept += [_encoded(key), _encoded(len(inside)), inside]
        start = content + size
    if start != end:
        raise ValueError(f"a field ends at {start}, and its message at {end}")
    return b"".join((*kept, data[copied:end]))


def _size(data: mmap, start: int, kind: int) -> tuple[int, int]:
    """Return the size of a field's content, and where it begins."""
    if kind == _SIZED:
        return _number(data, start)
    if kind == _VARINT:
        return _number(data, start)[1] - start, start
    if kind not in _FIXED:
        raise ValueError(f"a field of the kind {kind}")
    return _FIXED[kind], start


def _number(data: mmap, start: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, the lowest first, and where it ends."""
    number = shift = 0
    while True:
        byte = data[start]
        start += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, start
        shift += 7


def _encoded(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))
