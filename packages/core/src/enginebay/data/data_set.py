"""The data set: items that are the same every time, checked against a model's inputs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from enginebay.data.batch_rows import form_of, split
from enginebay.data.data_record import DataRecord
from enginebay.data.data_sources import Unprepared, Values, open_source
from enginebay.errors import InputError, UsageError
from enginebay.inference import InputCheck
from enginebay.tensors import to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay.data.data_sources import Source
    from enginebay.hooks import Task
    from enginebay.tensors import NumpyArray, TensorSpec

#: The name of the targets in files and dicts.
TARGET = "target"


class Item(NamedTuple):
    """One entry of a data set.

    Attributes:
        number: Its place in the source, from 0.
        inputs: Arrays by the model's names.
        target: What a metric compares the outputs with; None where there is none.
    """

    number: int
    inputs: dict[str, NumpyArray]
    target: Any = None


class NamedData(msgspec.Struct, frozen=True):
    """A data set that any process can open: :class:`DataSet` takes the same.

    Attributes:
        source: Text that names it, as on the command line.
        take: As many of its items.
        seed: Another seed, other items.
    """

    source: str
    take: int | None = None
    seed: int = 0


class DataSet:
    """Items for calibration, verification and evaluation.

    An item is a dict of arrays by input name, in which ``target`` holds the target; or a pair of
    inputs and a target, as a ``torch.utils.data.DataLoader`` gives; or, for a model with one
    input, the array alone. Items are read one at a time, as often as they are needed, and must be
    the same every time.

    Args:
        source: The path of an ``.npz`` file in which the first axis of every array counts the
            items, or of a folder of ``.npz`` files with an item each, or of other files that a
            task reads; ``file.py:attr`` or ``module:attr``, an iterable or a callable;
            ``SCHEME:NAME`` of a plugin; an iterable that can be read again, or a callable that
            returns an iterable.
        take: Use this many of them: drawn at random where their number is known, else the first.
        seed: Another seed, other items.

    Attributes:
        named: What another process opens it with; None where a Python object was given.
        targets: What the targets are numbered by, where a task has read the files; else empty.

    Raises:
        InputError: There is no such source, it cannot be read, or it can be read once only.
        UsageError: ``take`` is less than 1.

    Example:
        >>> import numpy as np
        >>> digits = DataSet([{"x": np.zeros((1, 8, 8)), "target": 3}] * 10, take=4)
        >>> len(digits), [item.target for item in digits]
        (4, [3, 3, 3, 3])
    """

    def __init__(self, source: Any, take: int | None = None, seed: int = 0) -> None:
        if take is not None and take < 1:
            raise UsageError(f"{take} items cannot be taken; wanted 1 or more")
        named = None
        self.targets = ""
        is_named = isinstance(source, str | PathLike)
        self.named = NamedData(fspath(source), take, seed) if is_named else None
        if isinstance(source, str):
            from enginebay.data.named_data import find_data

            named, source = f"'{source}'", find_data(source)
        self._digests = array("Q")
        self._length: int | None = None
        self._is_rows = False
        self._source: Source = open_source(source, named)
        self._take, self._seed = take, seed
        self._indices = _drawn(self._source.count, take, seed)

    @classmethod
    def of(cls, data: Any) -> DataSet:
        """Return the data as a data set; one that is a data set already as it is."""
        return data if isinstance(data, cls) else cls(data)

    @property
    def description(self) -> str:
        """Its name in messages: ``'calib.npz'``."""
        return self._source.description

    def for_task(self, task: Task | None) -> DataSet:
        """The same items for a model with this task, which says how files become inputs.

        Raises:
            InputError: The task finds something else in the folder than it wants.
        """
        if task is None or not isinstance(self._source, Unprepared):
            return self
        opened = task.open_folder(self._source.path)
        source = open_source(opened, self.description)
        other = self._copy(_drawn(source.count, self._take, self._seed), self._take)
        other._source, other.named = source, self.named
        other.targets = str(getattr(opened, "targets", ""))
        return other

    def for_inputs(self, inputs: Sequence[TensorSpec], *, row_by_row: bool = False) -> DataSet:
        """The same items for a model with these inputs: rows get a batch axis, batches are split.

        Items that fit stay as they are, and so do those that do not: reading them says why.

        Args:
            inputs: What the model takes.
            row_by_row: Split labelled batches where the batch is open, too.
        """
        names = [spec.name for spec in inputs]

        def pairs(data: DataSet) -> Iterator[tuple[dict[str, NumpyArray], Any]]:
            return (_item(0, raw, names, frozenset())[1:] for raw in data._raw())

        try:
            first, target = next(pairs(self.part(0, 1)))
            form = form_of(first, target if row_by_row else None, inputs)
        except (StopIteration, InputError, KeyError):
            return self
        if form == "rows":
            other = self._copy(self._indices, self._take)
            other._is_rows = True
            return other
        if form == "batches":
            whole, other = self._copy(None, None), self._copy(None, self._take)
            other._source = Values(lambda: split(pairs(whole)), self.description)
            return other
        return self

    @property
    def needs_task(self) -> bool:
        """True if it is a folder of files, and no task yet says how they become inputs."""
        return isinstance(self._source, Unprepared)

    def __len__(self) -> int:
        """How many items it gives; where only reading tells, it is read."""
        if self.count is not None:
            return self.count
        if self._length is None:
            self._length = sum(1 for _ in self._raw())
        return self._length

    def __iter__(self) -> Iterator[Item]:
        """The items as they are; ``""`` names the input of an array alone."""
        return self.items()

    def items(
        self, inputs: Sequence[TensorSpec] | None = None, unused: Iterable[str] = ()
    ) -> Iterator[Item]:
        """The items, each checked when it is read.

        Args:
            inputs: What the model takes; None leaves the items unchecked.
            unused: Names of inputs that an item may have besides, and that are left out.

        Raises:
            InputError: An item lacks an input, has another dtype or shape, or holds NaN; it is
                another one than at an earlier reading; or there is none. The message names it.
        """
        check = None if inputs is None else InputCheck(inputs)
        names = None if inputs is None else [spec.name for spec in inputs]
        left_out = frozenset(unused)
        count = 0
        for raw in self._raw():
            number = count if self._indices is None else self._indices[count]
            try:
                item = _item(number, raw, names, left_out)
                if self._is_rows:
                    item = item._replace(inputs={n: v[None] for n, v in item.inputs.items()})
                if check is not None:
                    check.check_names(item.inputs)
                    check.check(item.inputs)
                    _check_numbers(item.inputs)
                if "" not in item.inputs:  # without its name it is not compared with later ones
                    self._check_same(count, item)
            except InputError as err:
                raise InputError(
                    f"item {number} of {self.description}: {err}", hint=err.hint
                ) from err
            yield item
            count += 1
        if not count:
            raise InputError(f"{self.description} holds no item")
        if len(self._digests) > count:
            raise InputError(
                f"{self.description} gave {count} items, and {len(self._digests)} before",
                hint="a data set must be the same every time it is read",
            )

    @property
    def count(self) -> int | None:
        """How many items it gives; None where only reading tells."""
        if self._indices is not None:
            return len(self._indices)
        found = self._source.count
        return found if found is None or self._take is None else min(found, self._take)

    def record(self, count: int | None = None) -> DataRecord:
        """Which items were read so far.

        Args:
            count: Only so many of them, the first ones.
        """
        digests = self._digests[:count]
        digest = blake2b(digests.tobytes(), digest_size=16).hexdigest()
        return DataRecord(
            source=self.description.strip("'"),
            count=len(digests),
            indices=() if self._indices is None else tuple(self._indices),
            digest=digest,
            targets=self.targets,
        )

    def digests(self, start: int, stop: int) -> bytes:
        """Digests of the inputs of items that were read, 8 bytes for each place."""
        return self._digests[start:stop].tobytes()

    def some(self, count: int, seed: int = 0) -> DataSet:
        """At most so many of its items: drawn at random, or the first where all must be read."""
        if self._indices is None and not self._source.by_number:
            return (
                self if self._take is not None and self._take <= count else self._copy(None, count)
            )
        known = range(len(self)) if self._indices is None else self._indices
        drawn = _drawn(len(known), count, seed)
        return self if drawn is None else self._copy([known[place] for place in drawn], None)

    def part(self, start: int, stop: int) -> DataSet:
        """The items from one place to the one before another.

        Those before are read only where the source cannot be read by number.
        """
        last = stop if self.count is None else min(stop, self.count)
        known = range(last) if self._indices is None else self._indices
        return self._copy(list(known[start:last]), None)

    def _copy(self, indices: list[int] | None, take: int | None) -> DataSet:
        other = copy(self)
        other._indices, other._take = indices, take
        other._digests, other._length, other.named = array("Q"), None, None
        return other

    def _raw(self) -> Iterator[Any]:
        items = self._source.read(self._indices)
        if self._take is not None and self._indices is None:
            items = (item for item, _ in zip(items, range(self._take), strict=False))
        return items

    def _check_same(self, place: int, item: Item) -> None:
        digest = _digest(item.inputs)
        if place == len(self._digests):
            self._digests.append(digest)
        elif self._digests[place] != digest:
            raise InputError(
                "it is another one than when the data set was read before",
                hint="a data set must be the same every time: leave out shuffling, or fix the seed",
            )


class CheckedItems:
    """A data set bound to a model's inputs: checked items, as often as they are read.

    Args:
        data: The data set.
        inputs: What the model takes.
        unused: Names of inputs that an item may have besides, and that are left out.
    """

    def __init__(
        self, data: DataSet, inputs: Sequence[TensorSpec], unused: Iterable[str] = ()
    ) -> None:
        self._data = data
        self._inputs = tuple(inputs)
        self._unused = frozenset(unused)

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._data)

    def __iter__(self) -> Iterator[dict[str, NumpyArray]]:
        """The inputs of each item."""
        return (item.inputs for item in self._data.items(self._inputs, self._unused))

    def check_varied(self) -> None:
        """Raise InputError if floats hold one value throughout, which shows no range."""
        values: dict[str, Any] = {}
        pairs = (pair for inputs in self for pair in inputs.items())
        for name, each in (pair for pair in pairs if pair[1].dtype.kind in "fV" and pair[1].size):
            if (each != values.setdefault(name, each.flat[0])).any():
                return
        if held := ", ".join(f"'{name}' is {value}" for name, value in values.items()):
            raise InputError(
                f"{self._data.description} cannot calibrate anything: {held} throughout",
                hint="give data like what the engine will meet",
            )


def _drawn(count: int | None, take: int | None, seed: int) -> list[int] | None:
    """The numbers of the items to use; None for all of them, or the first."""
    if take is None or count is None or take >= count:
        return None
    chosen = np.random.default_rng(seed).choice(count, take, replace=False)
    return sorted(int(number) for number in chosen)


def _item(number: int, raw: Any, names: Sequence[str] | None, unused: frozenset[str]) -> Item:
    inputs, target = raw, None
    if isinstance(raw, Item):  # of a data set that is the source of another
        inputs, target = raw.inputs.get("", raw.inputs), raw.target
    elif isinstance(raw, tuple | list) and len(raw) == 2:
        inputs, target = raw
    if isinstance(inputs, Mapping):
        named = {str(name): value for name, value in inputs.items()}
        if target is None and TARGET not in (names or ()):
            target = named.pop(TARGET, None)
    else:
        values = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
        known = ["" if len(values) == 1 else str(n) for n in range(len(values))]
        if names is not None:
            known = [name for name in names if name not in unused]
        if target is None and len(values) == len(known) + 1:
            *values, target = values
        elif target is not None and len(values) == len(known) - 1:
            values, target = [*values, target], None  # a pair is all inputs of a model with two
        if len(values) != len(known):
            raise InputError(
                f"it has {len(values)} inputs without names, and the model takes {len(known)}: "
                f"{', '.join(known)}",
                hint="give a dict of arrays by name, or a pair of inputs and a target",
            )
        named = dict(zip(known, values, strict=True))
    arrays = {name: _array(name, value) for name, value in named.items() if name not in unused}
    return Item(number, arrays, target)


def _array(name: str, value: Any) -> NumpyArray:
    found = value if isinstance(value, np.ndarray) else to_numpy(value)
    if found.dtype.kind in "OUS":
        raise InputError(f"input '{name}' is no array of numbers: its dtype is {found.dtype}")
    return found


def _check_numbers(inputs: Mapping[str, NumpyArray]) -> None:
    for name, values in inputs.items():
        if values.dtype.kind == "f" and (wrong := np.isnan(values)).any():
            place = [int(axis) for axis in np.argwhere(wrong)[0]]
            raise InputError(f"input '{name}' holds NaN at {place}")


def _digest(inputs: Mapping[str, NumpyArray]) -> int:
    found = blake2b(digest_size=8)
    for name in sorted(inputs):
        values = np.ascontiguousarray(inputs[name])
        found.update(f"{name}:{values.dtype.str}:{values.shape}".encode())
        if values.size:
            found.update(values.reshape(-1).view(np.uint8).data)
    return int.from_bytes(found.digest(), "little")
