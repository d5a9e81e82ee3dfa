"""Split ncnn's weights file, which has no index, into the weights of each layer."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import ncnn

    from enginebay_ncnn.graph import Layer

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def split_weights(layers: Sequence[Layer], data: bytes) -> list[bytes]:
    """Split the content of a ``.bin`` file into the bytes of each layer.

    Only ncnn knows how many bytes a layer reads. So ncnn loads one layer after the other, each into
    a separate network, from a reader that counts the bytes.

    Raises:
        ConversionError: ncnn rejects a layer that is loaded separately, or the layers do not read
            all bytes.
    """
    reader = _make_reader(data)
    parts = []
    for layer in layers:
        start = reader.offset
        if layer.type != "Input":
            _load_layer(layer, reader)
        parts.append(data[start : reader.offset])
    if reader.offset != len(data):
        raise ConversionError(
            f"the layers read {reader.offset} bytes of weights, but the file has {len(data)}"
        )
    return parts


def _load_layer(layer: Layer, reader: ncnn.DataReader) -> None:
    import ncnn

    inputs = [f"Input in{index} 0 1 {blob}" for index, blob in enumerate(layer.inputs)]
    blobs = len(layer.inputs) + len(layer.outputs)
    text = "\n".join(["7767517", f"{len(inputs) + 1} {blobs}", *inputs, str(layer)])
    net = ncnn.Net()
    # Only the number of bytes matters: do not repack weights for faster convolutions.
    net.opt.use_winograd_convolution = net.opt.use_sgemm_convolution = False
    net.opt.use_packing_layout = net.opt.use_fp16_storage = net.opt.use_bf16_storage = False
    if net.load_param_mem(f"{text}\n") or net.load_model(reader):
        raise ConversionError(
            f"ncnn cannot load the layer '{layer.name}' ({layer.type}) and its weights separately "
            "from the network"
        )


def _make_reader(data: bytes) -> ncnn.DataReader:
    import ncnn

    class Reader(ncnn.DataReader):  # type: ignore[misc]  # ncnn has no stubs
        def __init__(self) -> None:
            super().__init__()
            self.offset = 0

        def read(self, memory: object, size: int) -> int:
            chunk = data[self.offset : self.offset + size]
            ctypes.memmove(_pointer(memory, None), chunk, len(chunk))
            self.offset += len(chunk)
            return len(chunk)

    return Reader()
