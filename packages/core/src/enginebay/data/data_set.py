"""Data sets: reproducible items, checked against a model's inputs."""

from __future__ import annotations

from array import array
from copy import copy
from hashlib import blake2b
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay.data.batch_rows import detect_batch_form, split_batches
from enginebay.data.data_record import DataRecord
from enginebay.data.data_sources import IterableSource, UnpreparedFolder, open_source
from enginebay.data.items import TARGET, Item, build_item, check_no_nan, compute_digest
from enginebay.errors import InputError, UsageError
from enginebay.inference import InputCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from enginebay.data.data_sources import ItemSource
    from enginebay.hooks import Task
    from enginebay.tensors import NumpyArray, TensorSpec


class NamedData(msgspec.Struct, frozen=True):
    """The arguments with which another process can open the same :class:`DataSet`.

    Attributes:
        source: The name of the data set, as on the command line.
        take: The number of items to use; None for all.
        seed: Random seed for ``take``.
    """

    source: str
    take: int | None = None
    seed: int = 0


class DataSet:
    """Items for calibration, verification and evaluation.

    An item is a dict of arrays by input name, in which ``target`` is the value that a metric
    compares the outputs with; or a pair of inputs and a target, as a
    ``torch.utils.data.DataLoader`` yields; or, for a model with one input, the array alone.

    Items are read one at a time, as often as they are needed, and must be the same every time.

    Args:
        source: The path of an ``.npz`` file whose arrays have one entry per item along axis 0, of a
            folder of ``.npz`` files with one item each, or of a folder of files that a task reads;
            ``file.py:attr`` or ``module:attr``, which names an iterable or a callable;
            ``SCHEME:NAME`` of a plugin; an iterable that can be read repeatedly; or a callable
            that returns an iterable.
        take: Number of items to use: random items if the length is known, else the first items.
        seed: Random seed for ``take``.

    Attributes:
        named: The arguments to open the data set in another process; None for a Python object.
        targets: Description of the class indices in targets, if a task has read the files; else
            empty.

    Raises:
        InputError: The source does not exist, cannot be read, or can be read only once.
        UsageError: ``take`` is less than 1.

    Example:
        >>> import numpy as np
        >>> digits = DataSet([{"x": np.zeros((1, 8, 8)), "target": 3}] * 10, take=4)
        >>> len(digits), [item.target for item in digits]
        (4, [3, 3, 3, 3])
    """

    def __init__(self, source: Any, take: int | None = None, seed: int = 0) -> None:
        if take is not None and take < 1:
            raise UsageError(f"take: expected 1 or more, found {take}")
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
        self._source: ItemSource = open_source(source, named)
        self._take, self._seed = take, seed
        self._indices = _draw_indices(self._source.count, take, seed)

    @classmethod
    def of(cls, data: object) -> DataSet:
        """Return the data as a data set; a :class:`DataSet` is returned unchanged."""
        return data if isinstance(data, cls) else cls(data)

    @property
    def description(self) -> str:
        """The name of the data set in messages: ``'calib.npz'``."""
        return self._source.description

    def for_task(self, task: Task | None) -> DataSet:
        """Return a data set whose items the task builds from the files in a folder.

        Without a task, or if this data set is not a folder that needs a task, return this object.

        Raises:
            InputError: The files in the folder are not those that the task expects.
        """
        if task is None or not isinstance(self._source, UnpreparedFolder):
            return self
        opened = task.open_folder(self._source.path)
        source = open_source(opened, self.description)
        # Drawn only now, since the task knows the number of items.
        other = self._copy_with(_draw_indices(source.count, self._take, self._seed), self._take)
        other._source, other.named = source, self.named
        other.targets = str(getattr(opened, "targets", ""))
        return other

    def for_inputs(self, inputs: Sequence[TensorSpec], *, split: str = "none") -> DataSet:
        """Return the data set with its items adapted to the batch size of the model's inputs.

        Items without a batch axis get one, and batches are split into rows. Other items stay
        unchanged; an item that does not fit raises an error when it is read.

        Args:
            inputs: The specs of the model's inputs.
            split: The batches that are also split if the model's batch size is dynamic: none, those
                with one target per row (``labelled``), or ``all``.
        """
        names = [spec.name for spec in inputs]

        def pairs(data: DataSet) -> Iterator[tuple[dict[str, NumpyArray], object]]:
            return (build_item(0, raw, names, frozenset())[1:] for raw in data._read_raw_items())

        try:
            first, target = next(pairs(self.part(0, 1)))
            form = detect_batch_form(first, target, inputs, split)
        # Reading the items raises the error, with the item's index.
        except (StopIteration, InputError, KeyError):
            return self
        if form == "rows":
            other = self._copy_with(self._indices, self._take)
            other._is_rows = True
            return other
        if form == "batches":
            whole, other = self._copy_with(None, None), self._copy_with(None, self._take)
            other._source = IterableSource(lambda: split_batches(pairs(whole)), self.description)
            return other
        return self

    @property
    def needs_task(self) -> bool:
        """True for a folder of files that no task has converted yet."""
        return isinstance(self._source, UnpreparedFolder)

    def __len__(self) -> int:
        """Return the number of items; reads the data set if the number is unknown."""
        if self.count is not None:
            return self.count
        if self._length is None:
            self._length = sum(1 for _ in self._read_raw_items())
        return self._length

    def __iter__(self) -> Iterator[Item]:
        """Iterate over the items, unchecked; an array without a name gets the name ``""``."""
        return self.items()

    def items(
        self, inputs: Sequence[TensorSpec] | None = None, unused: Iterable[str] = ()
    ) -> Iterator[Item]:
        """Yield the items, each checked when it is read.

        Args:
            inputs: The specs of the model's inputs; None to skip the check.
            unused: Names of further inputs that an item may have, which are dropped.

        Raises:
            InputError: An item lacks an input, has a wrong dtype or shape, contains NaN, or
                differs from the last time it was read; or there are no items. The message has the
                item's number.
        """
        check = None if inputs is None else InputCheck(inputs)
        names = None if inputs is None else [spec.name for spec in inputs]
        left_out = frozenset(unused)
        count = 0
        for raw in self._read_raw_items():
            number = count if self._indices is None else self._indices[count]
            try:
                item = build_item(number, raw, names, left_out)
                if self._is_rows:
                    item = item._replace(inputs={n: v[None] for n, v in item.inputs.items()})
                if check is not None:
                    check.check_names(item.inputs, spare=TARGET if item.target is None else "")
                    check.check(item.inputs)
                    check_no_nan(item.inputs)
                if "" not in item.inputs:  # the digest includes the name, which is still unknown
                    self._check_same(count, item)
            except InputError as err:
                raise InputError(
                    f"item {number} of {self.description}: {err}", hint=err.full_hint
                ) from err
            yield item
            count += 1
        if not count:
            raise InputError(f"{self.description} contains no items")
        if len(self._digests) > count:
            raise InputError(
                f"{self.description}: expected {len(self._digests)} items as before, found {count}",
                hint="a data set must be the same every time it is read",
            )

    @property
    def count(self) -> int | None:
        """The number of items; None if it is unknown before reading."""
        if self._indices is not None:
            return len(self._indices)
        total = self._source.count
        return total if total is None or self._take is None else min(total, self._take)

    def record(self, count: int | None = None) -> DataRecord:
        """Return a record of the items that were read so far.

        Args:
            count: Record only the first ``count`` items.
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
        """Return the joined digests, 8 bytes each, of the items from ``start`` up to ``stop``.

        Items that were not read yet have no digest, and are left out.
        """
        return self._digests[start:stop].tobytes()

    def some(self, count: int, seed: int = 0) -> DataSet:
        """Return a data set of at most ``count`` random items.

        If the items can be read only in order, the first items are chosen.
        """
        if self._indices is None and not self._source.by_number:
            is_small = self._take is not None and self._take <= count
            return self if is_small else self._copy_with(None, count)
        known = range(len(self)) if self._indices is None else self._indices
        drawn = _draw_indices(len(known), count, seed)
        return self if drawn is None else self._copy_with([known[n] for n in drawn], None)

    def part(self, start: int, stop: int) -> DataSet:
        """Return the items from ``start`` to ``stop`` (exclusive).

        Earlier items are read too if the items can be read only in order.
        """
        last = stop if self.count is None else min(stop, self.count)
        known = range(last) if self._indices is None else self._indices
        return self._copy_with(list(known[start:last]), None)

    def _copy_with(self, indices: list[int] | None, take: int | None) -> DataSet:
        other = copy(self)
        other._indices, other._take = indices, take
        # No `named`, since its arguments open the whole data set and not this part.
        other._digests, other._length, other.named = array("Q"), None, None
        return other

    def _read_raw_items(self) -> Iterator[object]:
        items = self._source.read(self._indices)
        if self._take is not None and self._indices is None:
            items = (item for item, _ in zip(items, range(self._take), strict=False))
        return items

    def _check_same(self, position: int, item: Item) -> None:
        digest = compute_digest(item.inputs)
        if position == len(self._digests):
            self._digests.append(digest)
        elif self._digests[position] != digest:
            raise InputError(
                "the item has changed since the data set was last read",
                hint="a data set must be the same every time: disable shuffling, or fix the seed",
            )


def _draw_indices(count: int | None, take: int | None, seed: int) -> list[int] | None:
    """Return ``take`` random indices; None for all items, or if their number is unknown."""
    if take is None or count is None or take >= count:
        return None
    # Sorted below, since sources read ascending indices.
    chosen = np.random.default_rng(seed).choice(count, take, replace=False)
    return sorted(int(number) for number in chosen)
