"""Sources of a data set's items: stacked arrays, a folder of files, or any iterable.

A source can be read repeatedly, and loads one item at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from io import SEEK_CUR, BufferedReader
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from enginebay.errors import ArtifactError, EnginebayError, InputError, first_line
from enginebay.tensors import is_recorded, load_samples

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray

#: Size of the buffer for reading a stacked file.
_BUFFER_BYTES = 1 << 16
#: Size of the header before each file in a zip archive; its last four bytes are two lengths.
_LOCAL_HEADER_BYTES = 30

#: How to write a stacked file.
NPZ_HINT = (
    "numpy.savez('data.npz', x=inputs), where x is the input's name, and inputs[0] is the "
    "value for the first item"
)


class ItemSource(Protocol):
    """Protocol of a sequence of items that can be read repeatedly.

    Attributes:
        description: The name of the source in messages: ``'calib.npz'``.
        count: The number of items; None if it is unknown before reading.
        by_number: True if an item can be read without reading the items before it.
    """

    description: str
    count: int | None
    by_number: bool

    def read(self, indices: Sequence[int] | None) -> Iterator[object]:
        """Yield the items with these ascending indices; None for all items."""
        ...


class RecordedSamples:
    """The user's example inputs and data items, as recorded in an artifact."""

    by_number = True

    def __init__(self, path: Path) -> None:
        self.description = f"'{path}'"
        with _report_read_errors(path):
            samples = load_samples(path)
        # Without the probe inputs, which were generated.
        self._samples = [sample.inputs for sample in samples if sample.kind in ("example", "item")]
        self.count: int | None = len(self._samples)

    def read(self, indices: Sequence[int] | None) -> Iterator[object]:
        """Yield the inputs of each sample."""
        chosen = range(len(self._samples)) if indices is None else indices
        return (self._samples[index] for index in chosen)


class StackedArrays:
    """An ``.npz`` file with one array for each input, in which axis 0 counts the items.

    The file is read item by item, so it may be larger than memory.
    """

    by_number = True

    def __init__(self, path: Path) -> None:
        self.description = f"'{path}'"
        self._path = path
        with _report_read_errors(path), ZipFile(path) as archive:
            self._names = [name.removesuffix(".npy") for name in archive.namelist()]
            lengths = {}
            for name in self._names:
                with archive.open(f"{name}.npy") as stream:
                    shape, *_ = _read_header(stream)
                lengths[name] = shape[0] if shape else 1
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InputError(
                f"{self.description}: expected arrays of equal length along axis 0, found {found}",
                hint=NPZ_HINT,
            )
        self.count: int | None = next(iter(lengths.values()), 0)

    def read(self, indices: Sequence[int] | None) -> Iterator[object]:
        """Yield each item: a dict with the item's entry of each array."""
        chosen = range(self.count or 0) if indices is None else indices
        with _report_read_errors(self._path), ZipFile(self._path) as archive:
            rows = {name: _read_rows(archive, name, chosen) for name in self._names}
            yield from ({name: next(row) for name, row in rows.items()} for _ in chosen)


class NpzFolder:
    """A folder of ``.npz`` files with one item each, sorted by file name."""

    by_number = True

    def __init__(self, path: Path) -> None:
        self.description = f"'{path}'"
        self._files = sorted(path.glob("*.npz"))
        self.count: int | None = len(self._files)

    def read(self, indices: Sequence[int] | None) -> Iterator[object]:
        """Yield each item: a dict of the arrays in the item's file."""
        for path in self._files if indices is None else (self._files[index] for index in indices):
            with _report_read_errors(path), np.load(path, allow_pickle=False) as file:
                item = dict(file)
            yield item


class UnpreparedFolder:
    """A folder of files other than ``.npz``, which only a task can convert to inputs."""

    by_number = False

    def __init__(self, path: Path) -> None:
        self.description = f"'{path}'"
        self.path = path
        self.count: int | None = None

    def read(self, indices: Sequence[int] | None) -> Iterator[object]:  # noqa: ARG002  # as in ItemSource
        """Raise InputError, since the files cannot be read without a task."""
        raise InputError(
            f"{self.description} contains no .npz files; other files require a task",
            hint="deploy the model with a task: --task FILE.json",
        )


class IterableSource:
    """A sequence, an iterable that can be read again, or a callable that returns an iterable."""

    def __init__(self, values: Any, description: str) -> None:
        self.description = description
        self._values = values
        self.count: int | None = len(values) if isinstance(values, Sized) else None
        self.by_number = self.count is not None and hasattr(values, "__getitem__")
        if isinstance(values, Iterator):
            raise InputError(
                f"{description} can be read only once",
                hint="pass a list, an object with __iter__, or a function that returns an iterator",
            )

    def read(self, indices: Sequence[int] | None) -> Iterator[object]:
        """Yield the items of the sequence or iterable."""
        if self.by_number:
            chosen = range(self.count or 0) if indices is None else indices
            with self._name_in_errors():
                yield from (self._values[index] for index in chosen)
            return
        remaining = None if indices is None else iter(indices)
        next_index = None if remaining is None else next(remaining, None)
        for index, item in enumerate(self._iterate_values()):
            if remaining is None:
                yield item
            elif index == next_index:
                yield item
                next_index = next(remaining, None)
                # The rest of a stream need not be read.
                if next_index is None:
                    return

    def _iterate_values(self) -> Iterator[object]:
        with self._name_in_errors():
            yield from self._values() if callable(self._values) else self._values

    @contextmanager
    def _name_in_errors(self) -> Iterator[None]:
        """Convert errors and SystemExit of the data set's code to errors that name the data set."""
        try:
            yield
        # GeneratorExit: the reader needs no more items.
        except (EnginebayError, GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as err:
            message = f"{self.description} raised {type(err).__name__}: {first_line(err)}"
            raise InputError(message) from err


def open_source(source: object, named: str | None = None) -> ItemSource:
    """Return the source for a path or a Python object.

    Args:
        source: The path of an ``.npz`` file or of a folder; an iterable that can be read
            repeatedly; or a callable without arguments that returns an iterable.
        named: The text that named the object, for messages and records.

    Raises:
        InputError: The source has a wrong type, or cannot be read.
    """
    if isinstance(source, str | PathLike):
        return _open_path(Path(source))
    described = named or f"the {type(source).__name__} given as data"
    is_sequence = hasattr(source, "__getitem__") and isinstance(source, Sized)
    is_scalar = getattr(source, "shape", None) == ()
    if (
        isinstance(source, Mapping)
        or is_scalar
        or not (isinstance(source, Iterable) or is_sequence or callable(source))
    ):
        raise InputError(
            f"{described} is not a data set; expected an iterable of items, such as a list of "
            "dicts",
            hint="[{'x': array}, …]" if isinstance(source, Mapping) else None,
        )
    return IterableSource(source, described)


def _open_path(path: Path) -> ItemSource:
    if path.is_dir():
        other = not any(path.glob("*.npz")) and any(file.is_file() for file in path.rglob("*"))
        return UnpreparedFolder(path) if other else NpzFolder(path)
    if not path.is_file():
        raise InputError(
            f"no data set '{path}'",
            hint=f"expected an .npz file: {NPZ_HINT}; or a folder",
        )
    with _report_read_errors(path):
        return RecordedSamples(path) if is_recorded(path) else StackedArrays(path)


@contextmanager
def _report_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, EOFError, BadZipFile, KeyError, ArtifactError) as err:
        raise InputError(f"'{path}' cannot be read as a data set: {err}", hint=NPZ_HINT) from err


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the shape, the memory order (True for Fortran's) and the dtype in an ``.npy`` header."""
    version = np.lib.format.read_magic(stream)
    first = version == (1, 0)
    layout = np.lib.format
    read = layout.read_array_header_1_0 if first else layout.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    # Objects are stored as pickles, which could run any code.
    if dtype.hasobject:
        raise ValueError("the file contains Python objects, which are not read")
    return shape, fortran, dtype


def _open_entry(archive: ZipFile, name: str, *, from_start: bool) -> BinaryIO:
    """Return a stream of the bytes of an array in an ``.npz`` file.

    ``from_start`` is True to read the stream from its start, False to seek in it.
    """
    info = archive.getinfo(f"{name}.npy")
    if from_start or info.compress_type != ZIP_STORED:
        # Buffered, since each read from the archive takes 15 µs, even of a hundred bytes.
        return BufferedReader(archive.open(info), _BUFFER_BYTES)  # type: ignore[type-var]  # it has readinto
    # Not zipfile's own stream: on Python 3.11 a seek reads all the bytes in between.
    assert archive.filename is not None
    file = Path(archive.filename).open("rb", _BUFFER_BYTES)  # noqa: SIM115  # the caller closes it
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER_BYTES)
    lengths = header[-4:-2], header[-2:]  # of the name and the extra field after the header
    file.seek(sum(int.from_bytes(length, "little") for length in lengths), SEEK_CUR)
    return file


def _read_rows(archive: ZipFile, name: str, indices: Sequence[int]) -> Iterator[NumpyArray]:
    """Yield the entries of an array at these indices of axis 0, each read only when needed."""
    with _open_entry(archive, name, from_start=not indices or indices[0] == 0) as stream:
        beginning = stream.tell()
        shape, fortran, dtype = _read_header(stream)
        if fortran or not shape:  # the entries are not contiguous: load the whole array
            stream.seek(beginning)
            whole = np.atleast_1d(np.lib.format.read_array(stream, allow_pickle=False))
            yield from (np.ascontiguousarray(whole[index]) for index in indices)
            return
        start, size = stream.tell(), dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        next_index = 0
        for index in indices:
            if index != next_index:
                stream.seek(start + index * size)
            next_index = index + 1
            data = stream.read(size)
            if len(data) != size:
                raise EOFError(f"array '{name}' is truncated in item {index}")
            # A bytearray, since an array over bytes is read-only.
            yield np.frombuffer(bytearray(data), dtype).reshape(shape[1:])
