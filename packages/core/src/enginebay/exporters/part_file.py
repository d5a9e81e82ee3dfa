"""A part of an ONNX model as a file, with its share of the weights beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from onnx import ModelProto, TensorProto

_ALIGNMENT = 4096  # whoever maps the file into memory wants pages
_CHUNK = 1 << 20


def save_part(model: ModelProto, path: Path, weights: Path) -> None:
    """Write a model, and the external data that it refers to into ``<path>.data``.

    Args:
        model: The part; its external tensors are changed to refer to the new file.
        path: Where to write it.
        weights: The folder that the model's external data lies in now; its locations have been
            checked when the model was read.
    """
    from enginebay.ir import tensors

    external = [each for each in tensors(model) if each.data_location == each.EXTERNAL]
    if external:
        with (path.parent / f"{path.name}.data").open("wb") as data:
            for tensor in external:
                _move(tensor, weights, data, f"{path.name}.data")
    path.write_bytes(model.SerializeToString())


def _move(tensor: TensorProto, weights: Path, data: BinaryIO, location: str) -> None:
    from enginebay.ir import byte_size

    old = {entry.key: entry.value for entry in tensor.external_data}
    length = int(old.get("length") or byte_size(tensor))
    offset = -data.tell() % _ALIGNMENT + data.tell()
    data.seek(offset)
    with (weights / old["location"]).open("rb") as source:
        source.seek(int(old.get("offset") or 0))
        for start in range(0, length, _CHUNK):
            data.write(source.read(min(_CHUNK, length - start)))
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
