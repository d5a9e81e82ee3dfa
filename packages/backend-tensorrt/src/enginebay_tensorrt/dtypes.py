"""Convert TensorRT's names of dtypes to NumPy's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorrt as trt

#: NumPy's names by members of ``tensorrt.DataType``. NumPy has no arrays of 4-bit types.
_NAMES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "FP8": "float8_e4m3fn",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "BOOL": "bool",
}
#: Every dtype that inputs and outputs may have. int8 and fp8 exist inside the network only.
SUPPORTED = ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool")


def get_dtype_name(kind: trt.DataType) -> str:
    """Return NumPy's name of a TensorRT dtype, or TensorRT's name if NumPy has no such dtype."""
    name: str = kind.name
    return _NAMES.get(name, name.lower())
