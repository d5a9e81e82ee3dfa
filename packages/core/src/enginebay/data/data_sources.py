"""Where items come from: stacked arrays, a folder of files, or any iterable.

A source can be read again and again, and holds one item at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from io import SEEK_CUR, BufferedReader
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from enginebay.errors import ArtifactError, EnginebayError, InputError, first_line
from enginebay.tensors import is_recorded, load_samples

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray

#: Bytes of a stacked file that are read ahead.
_BUFFER = 1 << 16
#: Bytes of the header before each file in an archive; its last four are two lengths.
_LOCAL_HEADER = 30

#: How a stacked file is written.
HINT = "numpy.savez('data.npz', x=inputs), where inputs[0] is the first whole input"


class Source(Protocol):
    """Items by number.

    Attributes:
        description: Its name in messages: ``'calib.npz'``.
        count: How many items there are; None where only reading tells.
        by_number: True if an item can be had without reading those before it.
    """

    description: str
    count: int | None
    by_number: bool

    def read(self, indices: Sequence[int] | None) -> Iterator[Any]:
        """The items with these numbers, in ascending order, or all of them."""
        ...


class Recorded:
    """Samples that Enginebay recorded; probes are left out."""

    by_number = True

    def __init__(self, path: Path) -> None:
        self.description = f"'{path}'"
        with _reading(path):
            samples = load_samples(path)
        self._samples = [sample.inputs for sample in samples if sample.kind in ("example", "item")]
        self.count: int | None = len(self._samples)

    def read(self, indices: Sequence[int] | None) -> Iterator[Any]:
        """The inputs of each sample."""
        chosen = range(len(self._samples)) if indices is None else indices
        return (self._samples[index] for index in chosen)


class Stacked:
    """An ``.npz`` file with an array for each input, whose first axis counts the items.

    It is read item by item, so that it may be larger than memory.
    """

    by_number = True

    def __init__(self, path: Path) -> None:
        self.description = f"'{path}'"
        self._path = path
        with _reading(path), ZipFile(path) as archive:
            self._names = [name.removesuffix(".npy") for name in archive.namelist()]
            lengths = {}
            for name in self._names:
                with archive.open(f"{name}.npy") as stream:
                    shape, *_ = _header(stream)
                lengths[name] = shape[0] if shape else 1
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InputError(
                f"{self.description} holds arrays of different lengths along axis 0: {found}",
                hint=HINT,
            )
        self.count: int | None = next(iter(lengths.values()), 0)

    def read(self, indices: Sequence[int] | None) -> Iterator[Any]:
        """One entry of each array."""
        chosen = range(self.count or 0) if indices is None else indices
        with _reading(self._path), ZipFile(self._path) as archive:
            rows = {name: _rows(archive, name, chosen) for name in self._names}
            yield from ({name: next(row) for name, row in rows.items()} for _ in chosen)


class Folder:
    """A folder of ``.npz`` files, an item each, in the order of their names."""

    by_number = True

    def __init__(self, path: Path) -> None:
        self.description = f"'{path}'"
        self._files = sorted(path.glob("*.npz"))
        self.count: int | None = len(self._files)

    def read(self, indices: Sequence[int] | None) -> Iterator[Any]:
        """The arrays in each file."""
        for path in self._files if indices is None else (self._files[index] for index in indices):
            with _reading(path), np.load(path, allow_pickle=False) as file:
                item = dict(file)
            yield item


class Unprepared:
    """A folder without ``.npz`` files: only a task says how its files become items."""

    by_number = False

    def __init__(self, path: Path) -> None:
        self.description = f"'{path}'"
        self.path = path
        self.count: int | None = None

    def read(self, indices: Sequence[int] | None) -> Iterator[Any]:  # noqa: ARG002  # as a Source
        """Refuse to read files that nothing is known of."""
        raise InputError(
            f"{self.description} holds no .npz file, and nothing says how its files become inputs",
            hint="deploy the model with a task that says it: --task FILE.json",
        )


class Values:
    """Any iterable that can be read again, a sequence, or a callable that returns an iterable."""

    def __init__(self, values: Any, description: str) -> None:
        self.description = description
        self._values = values
        self.count: int | None = len(values) if isinstance(values, Sized) else None
        self.by_number = self.count is not None and hasattr(values, "__getitem__")
        if isinstance(values, Iterator):
            raise InputError(
                f"{description} can be read once only",
                hint="give a list, an object with __iter__, or a function that returns an iterator",
            )

    def read(self, indices: Sequence[int] | None) -> Iterator[Any]:
        """The items themselves."""
        if self.by_number:
            chosen = range(self.count or 0) if indices is None else indices
            with self._named_errors():
                yield from (self._values[index] for index in chosen)
            return
        wanted = None if indices is None else iter(indices)
        following = None if wanted is None else next(wanted, None)
        for index, item in enumerate(self._started()):
            if wanted is None:
                yield item
            elif index == following:
                yield item
                following = next(wanted, None)
                if following is None:
                    return

    def _started(self) -> Iterator[Any]:
        """An iterator from the first item on."""
        with self._named_errors():
            yield from self._values() if callable(self._values) else self._values

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the data set in the errors of its code; an exit in it is no success."""
        try:
            yield
        except (EnginebayError, GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as err:
            message = f"{self.description} raised {type(err).__name__}: {first_line(err)}"
            raise InputError(message) from err


def open_source(source: Any, named: str | None = None) -> Source:
    """Find out what a data set is made of.

    Args:
        source: The path of an ``.npz`` file or of a folder; an iterable that can be read again;
            or a callable without arguments that returns an iterable.
        named: The text that led to it, for messages and records.

    Raises:
        InputError: It is none of these, or cannot be read.
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
            f"{described} is no data set; wanted an iterable of items, such as a list of dicts",
            hint="[{'x': array}, …]" if isinstance(source, Mapping) else None,
        )
    return Values(source, described)


def _open_path(path: Path) -> Source:
    if path.is_dir():
        other = not any(path.glob("*.npz")) and any(file.is_file() for file in path.rglob("*"))
        return Unprepared(path) if other else Folder(path)
    if not path.is_file():
        raise InputError(f"no data set '{path}'", hint=f"wanted an .npz file: {HINT}; or a folder")
    with _reading(path):
        return Recorded(path) if is_recorded(path) else Stacked(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, EOFError, BadZipFile, KeyError, ArtifactError) as err:
        raise InputError(f"'{path}' cannot be read as a data set: {err}", hint=HINT) from err


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether columns come first, and the dtype of an array in a file."""
    version = np.lib.format.read_magic(stream)
    first = version == (1, 0)
    layout = np.lib.format
    read = layout.read_array_header_1_0 if first else layout.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    return shape, fortran, dtype


def _entry(archive: ZipFile, name: str, *, from_start: bool) -> BinaryIO:
    """An array's file in an archive, to be read from its start or from somewhere in it."""
    info = archive.getinfo(f"{name}.npy")
    if from_start or info.compress_type != ZIP_STORED:
        # Buffered: reading an entry of some hundred bytes from the archive takes 15 µs.
        return BufferedReader(archive.open(info), _BUFFER)  # type: ignore[type-var]  # it has readinto
    # zipfile of Python 3.11 reads all that it seeks over.
    assert archive.filename is not None
    file = Path(archive.filename).open("rb", _BUFFER)  # noqa: SIM115  # the caller closes it
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    lengths = header[-4:-2], header[-2:]  # of the name and the extra field behind it
    file.seek(sum(int.from_bytes(each, "little") for each in lengths), SEEK_CUR)
    return file


def _rows(archive: ZipFile, name: str, indices: Sequence[int]) -> Iterator[NumpyArray]:
    """The entries of an array along its first axis, each read when it is wanted."""
    with _entry(archive, name, from_start=not indices or indices[0] == 0) as stream:
        beginning = stream.tell()
        shape, fortran, dtype = _header(stream)
        if fortran or not shape:
            stream.seek(beginning)
            whole = np.atleast_1d(np.lib.format.read_array(stream, allow_pickle=False))
            yield from (np.ascontiguousarray(whole[index]) for index in indices)
            return
        start, size = stream.tell(), dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        following = 0
        for index in indices:
            if index != following:
                stream.seek(start + index * size)
            following = index + 1
            data = stream.read(size)
            if len(data) != size:
                raise EOFError(f"'{name}' ends in item {index}")
            yield np.frombuffer(bytearray(data), dtype).reshape(shape[1:])
