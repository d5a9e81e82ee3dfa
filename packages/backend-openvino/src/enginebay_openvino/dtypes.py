"""The mapping between NumPy's and OpenVINO's names of dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openvino as ov

#: Members of ``openvino.Type`` by NumPy's names, for the dtypes with the same memory layout. This
#: excludes elements of 4 bits and less, which OpenVINO packs into bytes, and strings, whose memory
#: the Python interface of 2026.4 frees twice.
_TYPES = {
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    "bfloat16": "bf16",
    "bool": "boolean",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e8m0fnu": "f8e8m0",
}
_NAMES = {openvino: numpy for numpy, openvino in _TYPES.items()}


def is_shared(dtype: str) -> bool:
    """Return True if OpenVINO can use the memory of NumPy arrays with this dtype.

    Example:
        >>> is_shared("bfloat16"), is_shared("int4"), is_shared("string")
        (True, False, False)
    """
    return dtype in _TYPES


def get_openvino_type(dtype: str) -> ov.Type:
    """Return OpenVINO's type for a NumPy dtype; ``dynamic`` if OpenVINO has no such type.

    Example:
        >>> get_openvino_type("bool").get_type_name()
        'boolean'
    """
    import openvino as ov

    return getattr(ov.Type, _TYPES.get(dtype, "dynamic"))


def get_dtype_name(element_type: ov.Type) -> str:
    """Return NumPy's name of an OpenVINO type; OpenVINO's name if NumPy has no such dtype.

    Example:
        >>> import openvino
        >>> get_dtype_name(openvino.Type.f16)
        'float16'
    """
    name: str = element_type.get_type_name()
    return _NAMES.get(name, name)
