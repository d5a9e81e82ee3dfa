"""The weights of a network by its layers: ncnn's file holds them one after the other, unmarked."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay_ncnn.graph import Layer

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def split_weights(layers: Sequence[Layer], data: bytes) -> list[bytes]:
    """Cut the content of a ``.bin`` file into the bytes of each layer.

    Only ncnn knows how many bytes a layer reads, so each is loaded in a network of its own, all of
    them from one reader.

    Raises:
        ConversionError: ncnn cannot load a layer alone, or bytes are left over.
    """
    reader = _reader(data)
    parts = []
    for layer in layers:
        start = reader.place
        if layer.type != "Input":
            _load_alone(layer, reader)
        parts.append(data[start : reader.place])
    if reader.place != len(data):
        raise ConversionError(
            f"the layers read {reader.place} bytes of weights, and the file has {len(data)}"
        )
    return parts


def _load_alone(layer: Layer, reader: Any) -> None:
    import ncnn

    inputs = [f"Input in{place} 0 1 {blob}" for place, blob in enumerate(layer.inputs)]
    blobs = len(layer.inputs) + len(layer.outputs)
    text = "\n".join(["7767517", f"{len(inputs) + 1} {blobs}", *inputs, str(layer)])
    net = ncnn.Net()
    # It is loaded for its bytes alone: no form for faster convolutions is made of them.
    net.opt.use_winograd_convolution = net.opt.use_sgemm_convolution = False
    net.opt.use_packing_layout = net.opt.use_fp16_storage = net.opt.use_bf16_storage = False
    if net.load_param_mem(f"{text}\n") or net.load_model(reader):
        raise ConversionError(f"ncnn cannot load the layer '{layer.name}' ({layer.type}) alone")


def _reader(data: bytes) -> Any:
    import ncnn

    class Reader(ncnn.DataReader):  # type: ignore[misc]  # ncnn has no types
        def __init__(self) -> None:
            super().__init__()
            self.place = 0

        def read(self, memory: object, size: int) -> int:
            chunk = data[self.place : self.place + size]
            ctypes.memmove(_pointer(memory, None), chunk, len(chunk))
            self.place += len(chunk)
            return len(chunk)

    return Reader()
