"""Input arrays: parsed from text and files, generated at random, and resized."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from enginebay.errors import InputError, did_you_mean
from enginebay.tensors.arrays import numpy_dtype
from enginebay.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import torch

    from enginebay.tensors.arrays import NumpyArray
    from enginebay.tensors.spec import Array

_A = TypeVar("_A", "np.ndarray[Any, np.dtype[Any]]", "torch.Tensor")

#: A number that is no shape.
_NUMBER = re.compile(r"-\d+|-?\d*\.\d+(e-?\d+)?|-?\d+e-?\d+")

_GRAMMAR = "x=1x3x224x224, ids=1x16:int64, x=file.npy or batch.npz"

_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "bool", "uint8"),
    *("int8", "int16", "int32", "int64", "complex64", "complex128"),
)


def parse_input(text: str) -> Mapping[str, TensorSpec | NumpyArray]:
    """Parse the text of an option ``--input``.

    Args:
        text: ``name=shape``, ``name=shape:dtype``, ``name=file.npy`` or ``file.npz``. The name may
            be left out if the model has only one input; the key is then ``""``. A dtype without
            dimensions (``n=:int64``) is a scalar, a number (``n=0.5``) the value of a scalar; so is
            an integer (``n=16000``) if the model's input has no dimensions.

    Returns:
        Input name → a spec to generate values for, or the array in the file. An ``.npz`` file may
        contain several arrays.

    Raises:
        InputError: The text has none of these forms, or the file cannot be read.

    Example:
        >>> parse_input("ids=1x16:int64")
        {'ids': TensorSpec(name='ids', dtype='int64', dims=(1, 16))}
    """
    # From the right, since a name may contain an equals sign.
    name, _, value = text.rpartition("=")
    if value.endswith(".npz"):
        arrays = _read_npz(Path(value))
        return _rename_only_array(name, arrays) if name else arrays
    if value.endswith(".npy"):
        return {name: _read_npy(Path(value))}
    if _NUMBER.fullmatch(value):
        import numpy as np

        is_whole = value.lstrip("-").isdecimal()
        return {name: np.asarray(int(value)) if is_whole else np.asarray(float(value), "float32")}
    return {name: _parse_shape(name, value, text)}


def parse_inputs(texts: Iterable[str]) -> dict[str, TensorSpec | NumpyArray]:
    """Parse the texts of several options ``--input``; see :func:`parse_input`.

    Raises:
        InputError: One of the texts cannot be parsed, or two of them are for the same input.
    """
    inputs: dict[str, TensorSpec | NumpyArray] = {}
    for text in texts:
        for name, value in parse_input(text).items():
            if name in inputs:
                raise InputError(f"'{text}': input '{name}' is specified twice")
            inputs[name] = value
    return inputs


def inputs_for(
    specs: Sequence[TensorSpec], given: Mapping[str, TensorSpec | Array]
) -> dict[str, Array]:
    """Return an array for each input: the caller's array, or a generated one.

    Args:
        specs: The model's inputs.
        given: The result of :func:`parse_inputs`; the key ``""`` stands for the model's only
            input. Missing inputs are generated with the shapes in ``specs``.

    Raises:
        InputError: A missing input has a dynamic size or was given under an unknown name, or an
            array has no name though the model has several inputs.
    """
    named = {_resolve_name(name, specs): value for name, value in given.items()}
    known = {spec.name: spec for spec in specs}
    unknown = [name for name in named if name not in known]
    arrays: dict[str, Array] = {}
    for name, value in {**known, **named}.items():
        # The wrapper rejects unknown names, too late if this input, which was meant, is generated.
        if unknown and name not in named:
            raise InputError(
                f"unknown input '{unknown[0]}': the model takes {', '.join(known)}",
                hint=did_you_mean(unknown[0], [name]) or f"rename '{unknown[0]}' to '{name}'",
            )
        if isinstance(value, TensorSpec):
            value = generate_input(known.get(name, value), value)
        arrays[name] = value
    return arrays


def generate_input(spec: TensorSpec, requested: TensorSpec, *, below: int = 2) -> NumpyArray:
    """Return a random array with the dtype of the model's input and the shape that the user typed.

    Args:
        spec: The model's input.
        requested: The shape and dtype that the user typed.
        below: Exclusive bound of generated integers, which start at 0.

    Raises:
        InputError: The user typed a dtype that differs from the model's.
    """
    import numpy as np

    # parse_input() returns float32 if no dtype was typed.
    if requested.dtype not in (spec.dtype, "float32"):
        raise InputError(
            f"input '{spec.name}': expected dtype {spec.dtype}, found {requested.dtype}",
            hint=f"leave ':{requested.dtype}' out",
        )
    if spec.dims == () and requested.dims and len(requested.dims) == 1:
        return np.asarray(requested.dims[0], numpy_dtype(spec.dtype))
    resized = TensorSpec(spec.name, spec.dtype, requested.dims)
    return random_inputs([resized], below={spec.name: below})[spec.name]


def suggest_inputs(specs: Iterable[TensorSpec]) -> str:
    """Return options ``--input`` that fit specs, to be typed, with small sizes for open ones.

    Example:
        >>> suggest_inputs([TensorSpec("image", "float32", ("n", 3, "h", "w"))])
        '--input image=1x3x224x224'
    """
    import shlex

    sizes: dict[str, int] = {}
    return " ".join(f"--input {shlex.quote(_suggest_input(spec, sizes))}" for spec in specs)


def _suggest_input(spec: TensorSpec, named: dict[str, int]) -> str:
    """Return the text of one such option; ``named`` has the open sizes of other inputs by name."""
    if spec.dims == ():
        return f"{spec.name}=1"
    if spec.dtype in ("string", "unknown"):
        return f"{spec.name}=file.npy"
    dims = ("n", 3, "h", "w") if spec.dims is None else spec.dims
    # The open axes of an image's plane, of a sequence, and a batch.
    usual = (1, 8, 224, 224) if len(dims) == 4 else (1, *[16] * len(dims))
    sizes = (
        dim if isinstance(dim, int) else named.setdefault(dim, usual[axis])
        for axis, dim in enumerate(dims)
    )
    return f"{spec.name}={'x'.join(map(str, sizes))}"


def _resolve_name(name: str, specs: Sequence[TensorSpec]) -> str:
    if name:
        return name
    if len(specs) != 1:
        names = ", ".join(spec.name for spec in specs)
        raise InputError(
            f"an input was passed without a name, but the model has several inputs: {names}"
        )
    return specs[0].name


def random_inputs(
    specs: Iterable[TensorSpec], seed: int = 0, *, below: Mapping[str, int] | None = None
) -> dict[str, NumpyArray]:
    """Return reproducible random inputs, generated without torch.

    Floats are normally distributed. Integers are 0 or 1 by default, which are valid indices into
    any embedding with at least two rows.

    Args:
        specs: The inputs.
        seed: Random seed; the same seed and specs produce the same values.
        below: Input name → exclusive bound of its integers (default: 2).

    Raises:
        InputError: A size is dynamic, or no values can be generated for the dtype (``string``).

    Example:
        >>> random_inputs([TensorSpec("mask", "bool", (3,))])["mask"].dtype
        dtype('bool')
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    limits = below or {}
    return {spec.name: _random_array(spec, generator, limits.get(spec.name, 2)) for spec in specs}


def resize(array: _A, shape: Sequence[int]) -> _A:
    """Return the array with another shape of the same rank, cropped or repeated along each axis.

    The result contains only values of the array, so indices stay valid and masks stay masks.

    Args:
        array: A torch tensor or NumPy array.
        shape: The new shape.

    Raises:
        InputError: The rank differs, or an axis of size 0 would have to grow.

    Example:
        >>> import numpy as np
        >>> resize(np.array([[1, 2, 3]]), (2, 4)).tolist()
        [[1, 2, 3, 1], [1, 2, 3, 1]]
    """
    old_shape = tuple(array.shape)
    if len(old_shape) != len(shape):
        raise InputError(f"an input of shape {old_shape} cannot be resized to {tuple(shape)}")
    for axis, size in enumerate(shape):
        if size != old_shape[axis]:
            array = _resize_axis(array, axis, size)
    return array


def _resize_axis(array: _A, axis: int, size: int) -> _A:
    import numpy as np
    import torch

    old = array.shape[axis]
    if old == 0:
        raise InputError(f"axis {axis} of an input has size 0 and cannot be resized to {size}")
    index = np.arange(size) % old
    if isinstance(array, np.ndarray):
        resized: np.ndarray[Any, np.dtype[Any]] = np.take(array, index, axis)
        return resized
    return array.index_select(axis, torch.from_numpy(index).to(array.device))


def _random_array(spec: TensorSpec, generator: np.random.Generator, below: int) -> NumpyArray:
    if not spec.is_static:
        message = f"cannot generate an input for {spec.describe()}: its shape is dynamic"
        raise InputError(message, hint=suggest_inputs([spec]))
    dtype = numpy_dtype(spec.dtype)
    shape = [int(dim) for dim in spec.dims or ()]
    if dtype.kind == "O":
        message = f"cannot generate an input for {spec.describe()}"
        hint = f"--input {spec.name}=file.npy"
        if spec.dtype == "string":
            hint += ", written by numpy.save('file.npy', ['first text', 'second text'])"
        raise InputError(message, hint=hint)
    if dtype.kind in "biu":
        import numpy as np

        # `below` may exceed the range of a narrow dtype such as int8.
        limit = 2 if dtype.kind == "b" else min(below, np.iinfo(dtype).max)
        return generator.integers(0, limit, shape).astype(dtype)
    # Floating point or complex. dtype.kind cannot tell: ml_dtypes' types have the kind "V".
    return generator.standard_normal(shape).astype(dtype)


def _parse_shape(name: str, value: str, text: str) -> TensorSpec:
    dims, colon, dtype = value.partition(":")
    sizes = dims.split("x") if dims else []
    if not all(size.isascii() and size.isdecimal() for size in sizes) or not (sizes or colon):
        raise InputError(
            f"'{text}' is not a valid input: expected NAME=SHAPE or NAME=FILE",
            hint=f"write {_GRAMMAR}",
        )
    return TensorSpec(name, _parse_dtype(dtype) if colon else "float32", tuple(map(int, sizes)))


def _parse_dtype(text: str) -> str:
    if text in _DTYPES:
        return text
    raise InputError(f"unknown dtype '{text}'", hint=did_you_mean(text, _DTYPES))


def _read_npy(path: Path) -> NumpyArray:
    import numpy as np

    with _open_arrays(path) as stream:
        # A pickle could run any code.
        return np.lib.format.read_array(stream, allow_pickle=False)


def _read_npz(path: Path) -> dict[str, NumpyArray]:
    import numpy as np

    with _open_arrays(path) as stream, np.lib.npyio.NpzFile(stream, allow_pickle=False) as archive:
        return dict(archive)


@contextmanager
def _open_arrays(path: Path) -> Iterator[BinaryIO]:
    from zipfile import BadZipFile

    try:
        with path.open("rb") as stream:
            yield stream
    except FileNotFoundError as err:
        raise InputError(f"no file '{path}'") from err
    except (OSError, ValueError, EOFError, BadZipFile) as err:
        message = f"'{path}' cannot be read as NumPy arrays"
        raise InputError(message, hint="write the file with numpy.save or numpy.savez") from err


def _rename_only_array(name: str, arrays: dict[str, NumpyArray]) -> dict[str, NumpyArray]:
    if len(arrays) != 1:
        message = (
            f"the name '{name}' is for one input, but the .npz file contains {len(arrays)} arrays"
        )
        raise InputError(message, hint="leave the name out: the arrays in the file have names")
    return {name: next(iter(arrays.values()))}
