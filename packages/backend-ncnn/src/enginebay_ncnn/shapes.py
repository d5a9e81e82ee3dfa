"""Find the smallest and the largest shape of each input, for pnnx.

pnnx folds computations with fixed sizes to constants, so it must know which sizes are dynamic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import ConversionError, ParamsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay import TensorSpec
    from enginebay.hooks import ConvertRequest
    from enginebay_ncnn.params import NcnnParams

#: pnnx's names of dtypes.
_DTYPES = {
    "float32": "f32",
    "float16": "f16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "bool",
}


class InputShape(msgspec.Struct, frozen=True):
    """The range of shapes of one input.

    Attributes:
        name: The input's name in the model.
        dtype: The input's dtype in the file for pnnx.
        smallest: The smallest shape.
        largest: The largest shape.
    """

    name: str
    dtype: str
    smallest: tuple[int, ...]
    largest: tuple[int, ...]

    @property
    def is_open(self) -> bool:
        """True if a dimension is dynamic."""
        return self.smallest != self.largest

    @property
    def smallest_text(self) -> str:
        """The smallest shape in pnnx's notation: ``[1,3,8,8]f32``."""
        return _format_dims(self.smallest, self.dtype)

    @property
    def largest_text(self) -> str:
        """The largest shape in pnnx's notation."""
        return _format_dims(self.largest, self.dtype)


def resolve_input_shapes(request: ConvertRequest[NcnnParams]) -> tuple[InputShape, ...]:
    """Return the shape range of each input, from the model, the parameters and the request.

    The size of a dynamic batch is set to 1, since the wrapper runs a larger batch item by item.

    Raises:
        ConversionError: A dynamic dimension has no range, or the shape of an input is unknown.
        ParamsError: The shapes in the parameters do not match the model's inputs.
    """
    specs = request.ir.inputs
    names = [spec.name for spec in specs]
    known = {name: shapes for name, shapes in request.shapes.items() if name in names}
    profiles = dict(request.params.shape_profiles()) or known
    if "" in profiles and len(specs) == 1:
        profiles[specs[0].name] = profiles.pop("")
    for name in profiles:
        if name not in names:
            raise ParamsError(
                f"unknown input '{name}' in the input shapes; available: {', '.join(names)}"
            )
    return tuple(_input_shape(spec, profiles.get(spec.name)) for spec in specs)


def find_batch_name(specs: Sequence[TensorSpec]) -> str | None:
    """Return the name that dimension 0 has in every input with a dynamic shape.

    Return None if this name differs between the inputs, or if dimension 0 is fixed.
    """
    names = {
        spec.dims[0] for spec in specs if spec.dims and any(isinstance(d, str) for d in spec.dims)
    }
    name = names.pop() if len(names) == 1 else None
    return name if isinstance(name, str) else None


def _input_shape(spec: TensorSpec, profile: object) -> InputShape:
    smallest = _resolve_dims(spec, getattr(profile, "min", None))
    largest = _resolve_dims(spec, getattr(profile, "max", None))
    return InputShape(spec.name, spec.dtype, smallest, largest)


def _resolve_dims(spec: TensorSpec, sizes: tuple[int | None, ...] | None) -> tuple[int, ...]:
    if spec.dims is None and (sizes is None or None in sizes):
        raise ConversionError(
            f"the shape of input '{spec.name}' is unknown, and pnnx requires it",
            hint=f"--input-shapes {spec.name}:1x3x224x224",
        )
    dims = spec.dims if spec.dims is not None else sizes
    assert dims is not None
    sizes = sizes or (None,) * len(dims)
    if len(sizes) != len(dims):
        raise ParamsError(f"the shape {sizes} does not match the input {spec.describe()}")
    return tuple(_resolve_size(spec, axis, dim, sizes[axis]) for axis, dim in enumerate(dims))


def _resolve_size(spec: TensorSpec, axis: int, dim: int | str | None, size: int | None) -> int:
    if isinstance(dim, int):
        return dim
    if axis == 0:
        return 1  # the batch
    if size is None:
        raise ConversionError(
            f"dimension {axis} of {spec.describe()} is dynamic, and pnnx requires its range",
            hint=f"--dynamic {spec.name}:{axis}=8:64",
        )
    return size


def _format_dims(dims: tuple[int, ...], dtype: str) -> str:
    # pnnx cannot read a shape without dimensions; ncnn's blobs have at least one.
    return f"[{','.join(map(str, dims or (1,)))}]{_DTYPES[dtype]}"
