"""The input shapes for pnnx, which folds everything that depends on a fixed size."""

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
    """The sizes of one input.

    Attributes:
        name: The model's name of the input.
        dtype: Its dtype.
        smallest: Its smallest dims.
        largest: Its largest dims.
    """

    name: str
    dtype: str
    smallest: tuple[int, ...]
    largest: tuple[int, ...]

    @property
    def is_open(self) -> bool:
        """True if a size may change."""
        return self.smallest != self.largest

    @property
    def smallest_text(self) -> str:
        """The smallest dims as pnnx reads them: ``[1,3,8,8]f32``."""
        return _text(self.smallest, self.dtype)

    @property
    def largest_text(self) -> str:
        """The largest dims as pnnx reads them."""
        return _text(self.largest, self.dtype)


def input_shapes(request: ConvertRequest[NcnnParams]) -> tuple[InputShape, ...]:
    """Return the shape of each input, from the model's specs, the params, or else the deployment.

    A dynamic batch is 1: the wrapper cuts larger ones, with one call for each piece.

    Raises:
        ConversionError: A size is dynamic and has no limit, or ncnn cannot hold the input's dtype.
        ParamsError: The shapes in the params do not fit the model's.
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
                f"there is a shape for '{name}', which is not an input of the model: "
                f"it has {', '.join(names)}"
            )
    return tuple(_input_shape(spec, profiles.get(spec.name)) for spec in specs)


def batch_name(specs: Sequence[TensorSpec]) -> str | None:
    """Return the name of the batch: the first axis of every input with a dynamic dimension."""
    names = {
        spec.dims[0] for spec in specs if spec.dims and any(isinstance(d, str) for d in spec.dims)
    }
    name = names.pop() if len(names) == 1 else None
    return name if isinstance(name, str) else None


def _input_shape(spec: TensorSpec, profile: object) -> InputShape:
    smallest = _known(spec, getattr(profile, "min", None))
    largest = _known(spec, getattr(profile, "max", None))
    return InputShape(spec.name, spec.dtype, smallest, largest)


def _known(spec: TensorSpec, given: tuple[int | None, ...] | None) -> tuple[int, ...]:
    if spec.dims is None and (given is None or None in given):
        raise ConversionError(
            f"the shape of input '{spec.name}' is not known, and pnnx needs it",
            hint=f"--input-shapes {spec.name}:1x3x224x224",
        )
    dims = spec.dims if spec.dims is not None else given
    assert dims is not None
    given = given or (None,) * len(dims)
    if len(given) != len(dims):
        raise ParamsError(f"the shape {given} does not fit {spec.describe()}")
    return tuple(_size(spec, axis, dim, given[axis]) for axis, dim in enumerate(dims))


def _size(spec: TensorSpec, axis: int, dim: int | str | None, given: int | None) -> int:
    if isinstance(dim, int):
        return dim
    if axis == 0:
        return 1
    if given is None:
        raise ConversionError(
            f"dimension {axis} of {spec.describe()} is open, and pnnx needs a size",
            hint=f"give its range: --dynamic {spec.name}:{axis}=8:64",
        )
    return given


def _text(dims: tuple[int, ...], dtype: str) -> str:
    # pnnx reads no shape without dimensions, and a blob of ncnn's has one at least.
    return f"[{','.join(map(str, dims or (1,)))}]{_DTYPES[dtype]}"
