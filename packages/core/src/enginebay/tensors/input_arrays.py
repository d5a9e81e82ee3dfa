"""Example inputs: read from text and files, generated, and resized."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from enginebay.errors import InputError, nearest
from enginebay.tensors.arrays import numpy_dtype
from enginebay.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import torch

    from enginebay.tensors.arrays import NumpyArray
    from enginebay.tensors.spec import Array

_A = TypeVar("_A", "np.ndarray[Any, np.dtype[Any]]", "torch.Tensor")

_GRAMMAR = "x=1x3x224x224, ids=1x16:int64, x=file.npy or batch.npz"

_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "bool", "uint8"),
    *("int8", "int16", "int32", "int64", "complex64", "complex128"),
)


def parse_input(text: str) -> dict[str, TensorSpec | NumpyArray]:
    """Read one ``--input``.

    Args:
        text: ``name=shape``, ``name=shape:dtype``, ``name=file.npy`` or ``file.npz``. Without a
            name it is the model's only input, and its key is ``""``. No dimensions and a dtype
            (``n=:int64``) is a single number.

    Returns:
        By name a spec to generate values for, or the array in the file; an ``.npz`` may hold many.

    Raises:
        InputError: The text is none of these, or the file cannot be read.

    Example:
        >>> parse_input("ids=1x16:int64")
        {'ids': TensorSpec(name='ids', dtype='int64', dims=(1, 16))}
    """
    name, _, value = text.rpartition("=")
    if value.endswith(".npz"):
        return _read_npz(Path(value)) if not name else _only(name, _read_npz(Path(value)))
    if value.endswith(".npy"):
        return {name: _read_npy(Path(value))}
    return {name: _read_shape(name, value, text)}


def parse_inputs(texts: Iterable[str]) -> dict[str, TensorSpec | NumpyArray]:
    """Read several ``--input``; see :func:`parse_input`.

    Raises:
        InputError: One of them cannot be read, or two name the same input.
    """
    found: dict[str, TensorSpec | NumpyArray] = {}
    for text in texts:
        for name, value in parse_input(text).items():
            if name in found:
                raise InputError(f"'{text}' gives the input '{name}' a second time")
            found[name] = value
    return found


def inputs_for(
    specs: Sequence[TensorSpec], given: Mapping[str, TensorSpec | Array]
) -> dict[str, Array]:
    """Return one array for each input: as given, or generated where only its shape is known.

    Args:
        specs: The model's inputs.
        given: The result of :func:`parse_inputs`; a name may be missing where there is one input.

    Raises:
        InputError: An input is left out and its shape is open, or a name is not the model's.
    """
    named = {_only_name(name, specs): value for name, value in given.items()}
    known = {spec.name: spec for spec in specs}
    arrays: dict[str, Array] = {}
    for name, value in {**known, **named}.items():  # the wrapper refuses unknown names
        if isinstance(value, TensorSpec):
            value = generate_input(known.get(name, value), value)
        arrays[name] = value
    return arrays


def generate_input(spec: TensorSpec, wanted: TensorSpec, *, below: int = 2) -> NumpyArray:
    """Generate an array for an input: of the model's dtype, at a shape that the user typed.

    Args:
        spec: The model's input.
        wanted: What the user typed.
        below: Integers are at least 0, and less than this.

    Raises:
        InputError: Another dtype was typed.
    """
    if wanted.dtype not in (spec.dtype, "float32"):  # float32 is read where none is typed
        raise InputError(
            f"input '{spec.name}' is requested as {wanted.dtype}, wanted {spec.dtype}",
            hint=f"leave ':{wanted.dtype}' out",
        )
    named = TensorSpec(spec.name, spec.dtype, wanted.dims)
    return random_inputs([named], below={spec.name: below})[spec.name]


def _only_name(name: str, specs: Sequence[TensorSpec]) -> str:
    if name:
        return name
    if len(specs) != 1:
        names = ", ".join(spec.name for spec in specs)
        raise InputError(f"an input has no name, and the model takes {names}")
    return specs[0].name


def random_inputs(
    specs: Iterable[TensorSpec], seed: int = 0, *, below: Mapping[str, int] | None = None
) -> dict[str, NumpyArray]:
    """Generate inputs, the same for the same specs and seed. Needs no torch.

    Floats are normally distributed; integers are 0 or 1, so that they are valid indices into any
    embedding with two rows.

    Args:
        specs: The inputs.
        seed: Another seed, other values.
        below: By name, the number that an input's integers are less than, instead of 2.

    Raises:
        InputError: A dimension is open, or there are no values for the dtype.

    Example:
        >>> random_inputs([TensorSpec("mask", "bool", (3,))])["mask"].dtype
        dtype('bool')
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    limits = below or {}
    return {spec.name: _random(spec, generator, limits.get(spec.name, 2)) for spec in specs}


def resize(array: _A, shape: Sequence[int]) -> _A:
    """Return the array at another shape of the same rank: cut, or repeated along each axis.

    No new values are made, so that indices stay valid and masks stay masks.

    Args:
        array: A tensor or NumPy array.
        shape: The wanted shape.

    Raises:
        InputError: The rank differs, or there is no value to repeat.

    Example:
        >>> import numpy as np
        >>> resize(np.array([[1, 2, 3]]), (2, 4)).tolist()
        [[1, 2, 3, 1], [1, 2, 3, 1]]
    """
    found = tuple(array.shape)
    if len(found) != len(shape):
        raise InputError(f"an input of shape {found} cannot take the shape {tuple(shape)}")
    for axis, size in enumerate(shape):
        if size != found[axis]:
            array = _stretch(array, axis, size)
    return array


def _stretch(array: _A, axis: int, size: int) -> _A:
    import numpy as np
    import torch

    old = array.shape[axis]
    if old == 0:
        raise InputError(f"axis {axis} of an input has size 0: nothing to repeat {size} times")
    index = np.arange(size) % old
    if isinstance(array, np.ndarray):
        taken: np.ndarray[Any, np.dtype[Any]] = np.take(array, index, axis)
        return taken

    return array.index_select(axis, torch.from_numpy(index).to(array.device))


def _random(spec: TensorSpec, generator: np.random.Generator, below: int) -> NumpyArray:
    if not spec.is_static:
        message = f"cannot generate an input for {spec.describe()}: its shape is open"
        raise InputError(message, hint=f"--input {spec.name}=1x3x224x224")
    dtype = numpy_dtype(spec.dtype)
    shape = [int(dim) for dim in spec.dims or ()]
    if dtype.kind == "O":
        message = f"cannot generate an input for {spec.describe()}"
        raise InputError(message, hint=f"--input {spec.name}=file.npy")
    if dtype.kind in "biu":
        import numpy as np

        limit = 2 if dtype.kind == "b" else min(below, np.iinfo(dtype).max)
        return generator.integers(0, limit, shape).astype(dtype)
    # Everything else is floating point or complex; ml_dtypes' kinds are not NumPy's.
    return generator.standard_normal(shape).astype(dtype)


def _read_shape(name: str, value: str, text: str) -> TensorSpec:
    dims, colon, dtype = value.partition(":")
    sizes = dims.split("x") if dims else []
    if not all(size.isascii() and size.isdecimal() for size in sizes) or not (sizes or colon):
        raise InputError(f"'{text}' is not an input", hint=f"write {_GRAMMAR}")
    return TensorSpec(name, _dtype(dtype) if colon else "float32", tuple(map(int, sizes)))


def _dtype(text: str) -> str:
    if text in _DTYPES:
        return text
    guess = nearest(text, _DTYPES)
    raise InputError(f"'{text}' is not a dtype", hint=f"did you mean '{guess}'?" if guess else None)


def _read_npy(path: Path) -> Any:
    import numpy as np

    with _reading(path) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _read_npz(path: Path) -> dict[str, Any]:
    import numpy as np

    with _reading(path) as stream, np.lib.npyio.NpzFile(stream, allow_pickle=False) as archive:
        return dict(archive)


@contextmanager
def _reading(path: Path) -> Iterator[BinaryIO]:
    from zipfile import BadZipFile

    try:
        with path.open("rb") as stream:
            yield stream
    except FileNotFoundError as err:
        raise InputError(f"no file '{path}'") from err
    except (OSError, ValueError, EOFError, BadZipFile) as err:
        message = f"'{path}' cannot be read as NumPy arrays"
        raise InputError(message, hint="write it with numpy.save or numpy.savez") from err


def _only(name: str, arrays: dict[str, Any]) -> dict[str, Any]:
    if len(arrays) != 1:
        message = f"'{name}' names one input, and the .npz holds {len(arrays)} arrays"
        raise InputError(message, hint="leave the name out: the arrays have their own")
    return {name: next(iter(arrays.values()))}
