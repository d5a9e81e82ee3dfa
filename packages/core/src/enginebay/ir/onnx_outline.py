"""Reading of an ONNX file without the bytes of its weights, which are most of the file.

The file is a protobuf message: a sequence of fields. Each field has a key (field number and wire
type) and a content. See https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: The field numbers on the path to the weights: ModelProto.graph, GraphProto.initializer,
#: TensorProto.raw_data.
_WEIGHT_PATH = (7, 5, 9)
#: Wire type → size in bytes, for fields of a fixed size.
_FIXED_SIZES = {1: 8, 5: 4}
_VARINT, _LENGTH_DELIMITED = 0, 2

#: The size in bytes from which an initializer may be a duplicate.
_LEAST_DUPLICATE = 1024


def read_outline(path: Path) -> bytes:
    """Return the encoded ``ModelProto`` of an ONNX file without its initializers' ``raw_data``.

    Raises:
        ValueError: The file is empty or not a protobuf message.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        try:
            return _copy_without(data, 0, len(data), _WEIGHT_PATH)
        except IndexError as err:
            raise ValueError(f"'{path}' is truncated") from err


def measure_duplicates(path: Path) -> tuple[int, int]:
    """Return how many initializers have the ``raw_data`` of another one, and their bytes together.

    Small ones are left out: every graph has many equal shapes and axes. Of a file that only onnx's
    own reader understands, nothing is known.

    Raises:
        OSError: The file cannot be read.
    """
    places: list[tuple[int, int]] = []
    with path.open("rb") as file:
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data, suppress(ValueError, IndexError):
            _copy_without(data, 0, len(data), _WEIGHT_PATH, places)
        lengths = Counter(length for _, length in places)
        seen: set[bytes] = set()
        count = size = 0
        for start, length in places:
            # Read, not mapped: the memory stays small.
            if length >= _LEAST_DUPLICATE and lengths[length] > 1:
                file.seek(start)
                digest = sha256(file.read(length)).digest()
                if digest in seen:
                    count, size = count + 1, size + length
                seen.add(digest)
    return count, size


def _copy_without(
    data: mmap,
    start: int,
    end: int,
    path: tuple[int, ...],
    places: list[tuple[int, int]] | None = None,
) -> bytes:
    """Return a message without the nested fields at ``path``, a sequence of field numbers.

    The start and the size of these fields' contents are added to ``places``.
    """
    pieces = []
    copied = start
    while start < end:
        key, content = _read_varint(data, start)
        if key < 8:  # a file that ends in zeros would be read byte by byte
            raise ValueError(f"the field at byte {start} has the number 0")
        size, content = _content_size(data, content, key & 7)
        if key == path[0] << 3 | _LENGTH_DELIMITED:
            pieces.append(data[copied:start])
            copied = content + size
            if len(path) == 1 and places is not None:
                places.append((content, size))
            if len(path) > 1:
                inside = _copy_without(data, content, min(copied, end), path[1:], places)
                pieces += [_encode_varint(key), _encode_varint(len(inside)), inside]
        start = content + size
    if start != end:
        raise ValueError(f"a field ends at byte {start}, beyond its message's end at byte {end}")
    return b"".join((*pieces, data[copied:end]))


def _content_size(data: mmap, start: int, kind: int) -> tuple[int, int]:
    """Return the size of a field's content in bytes, and the offset of the content."""
    if kind == _LENGTH_DELIMITED:
        return _read_varint(data, start)
    if kind == _VARINT:
        return _read_varint(data, start)[1] - start, start
    if kind not in _FIXED_SIZES:
        raise ValueError(f"a field has the unknown wire type {kind}")
    return _FIXED_SIZES[kind], start


def _read_varint(data: mmap, start: int) -> tuple[int, int]:
    """Return the integer at an offset, and the offset after it."""
    number = shift = 0  # each byte has 7 bits of the integer, the lowest first
    while True:
        byte = data[start]
        start += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, start
        shift += 7


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)  # the high bit: more bytes follow
        number >>= 7
    return bytes((*encoded, number))
