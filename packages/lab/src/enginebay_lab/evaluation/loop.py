"""The loop: each item is read once, and passes through PyTorch and every artifact."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, IsolationError, raise_if_interrupted
from enginebay_lab.evaluation.engine import Engine, ItemError
from enginebay_lab.evaluation.shards import SHARD, Shard
from enginebay_lab.evaluation.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.authors import Item, NumpyArray
    from enginebay_lab.evaluation.candidates import Candidate
    from enginebay_lab.evaluation.chunks import Reader
    from enginebay_lab.evaluation.digests import ItemDigests
    from enginebay_lab.evaluation.reference import TorchModel
    from enginebay_lab.evaluation.run import Run

    Outputs = Sequence[Mapping[str, NumpyArray]]


class Loop:
    """A context in which the engines run.

    Args:
        run: What is evaluated.
        timeout: Seconds that an engine may take to load, and for each chunk of items.
    """

    def __init__(self, run: Run, *, timeout: float) -> None:
        self._run = run
        self._timeout = timeout
        self._engines: dict[str, Engine] = {}
        self._lost: dict[str, str] = {}
        self._stack = ExitStack()
        self._model: TorchModel | None = None
        self._open = _OpenShard(run, [], 0, compared=False)

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def start(self, candidates: Sequence[Candidate]) -> None:
        """Start the engines of these artifacts, but for those that run; does not wait for them."""
        for candidate in candidates:
            self._lost.pop(candidate.name, None)
            if candidate.name not in self._engines:
                engine = Engine(candidate.request, self._timeout)
                self._stack.callback(engine.close)
                self._engines[candidate.name] = engine

    def begin(
        self,
        model: TorchModel | None,
        start: int = 0,
        lost: Mapping[str, str] | None = None,
        shard: Shard | None = None,
    ) -> None:
        """Begin to evaluate, or go on with what an earlier run has found.

        Args:
            model: The PyTorch model; None for none.
            start: The place of the first item.
            lost: Why an artifact is lost, by its name.
            shard: What was found on the first items.
        """
        self._model = model
        self._open = _OpenShard(self._run, list(self._engines), start, compared=model is not None)
        if shard is not None:
            self._open.restore(shard)
        for name, reason in {**(shard.lost if shard else {}), **(lost or {})}.items():
            self._lose(name, reason)

    def shards(self, reader: Reader, watch: Callable[[int], None] | None = None) -> Iterator[Shard]:
        """Evaluate the items that are left.

        Args:
            reader: Reads the items.
            watch: Called after each chunk with the number of items that were read.

        Raises:
            InputError: An item does not fit.
            ModelError: The model raised.
            MetricError: A metric raised on PyTorch's outputs.
        """
        for chunk in reader.chunks():
            raise_if_interrupted()
            start = time.monotonic()
            expected, outputs = self._outputs(chunk)
            at = 0
            while at < len(chunk):
                part = slice(at, at + SHARD - self._open.count)
                found = {name: each[part] for name, each in outputs.items()}
                self._open.add(chunk[part], expected and expected[part], found)
                at = part.stop
                if self._open.count == SHARD:
                    yield self._closed(reader)
            reader.adapt(time.monotonic() - start)
            if watch is not None:
                watch(reader.count)
        if self._open.count:
            yield self._closed(reader)

    def open_shard(self, reader: Reader) -> Shard:
        """What was found since the last whole shard."""
        first = self._open.start
        items = reader.digests(first, first + self._open.count)
        return self._open.shard(items, dict(self._lost))

    def _closed(self, reader: Reader) -> Shard:
        shard = self.open_shard(reader)
        self._open.advance()
        return shard

    def _outputs(self, chunk: Sequence[Item]) -> tuple[Outputs | None, dict[str, Outputs]]:
        """PyTorch's outputs, and those of each engine; engines that fail are lost."""
        inputs = [item.inputs for item in chunk]
        overlap = self._model is not None and self._model.leaves_cores(chunk[0])
        if overlap:
            for engine in self._engines.values():
                engine.begin(inputs)
        expected = None if self._model is None else self._model.outputs(chunk)
        found: dict[str, Outputs] = {}
        for name, engine in list(self._engines.items()):
            try:
                if not overlap:
                    engine.begin(inputs)
                found[name] = engine.finish()
            except EnginebayError as err:
                self._lose(name, _reason(err, engine.backend, chunk, self._run.data.description))
        return expected, found

    def _lose(self, name: str, reason: str) -> None:
        self._lost[name] = reason
        self._engines.pop(name).close()


class _OpenShard:
    """The shard that items are added to.

    Args:
        run: What is evaluated.
        names: The artifacts.
        start: The place of the first item.
        compared: There is a PyTorch model.

    Attributes:
        start: The place of the first item.
        count: How many items were added.
    """

    def __init__(self, run: Run, names: Sequence[str], start: int, *, compared: bool) -> None:
        sources, data = run.sources, run.data.description
        self.start, self.count = start, 0
        self._reference = Tally(sources, data) if compared else None
        self._tallies = {name: Tally(sources, data, keep_errors=compared) for name in names}

    def add(
        self, items: Sequence[Item], expected: Outputs | None, outputs: Mapping[str, Outputs]
    ) -> None:
        """Add items with PyTorch's outputs, and those of each artifact that is not lost."""
        if self._reference and expected is not None:
            self._reference.add(items, expected, expected)
        for name, found in outputs.items():
            self._tallies[name].add(items, found, expected)
        self.count += len(items)

    def restore(self, shard: Shard) -> None:
        """Add the items of a shard."""
        if self._reference and shard.reference:
            self._reference.merge(shard.reference)
        for name, state in shard.artifacts.items():
            self._tallies[name].merge(state)
        self.count = shard.count

    def shard(self, items: ItemDigests, lost: dict[str, str]) -> Shard:
        """What was found on its items, whose digests are given."""
        return Shard(
            start=self.start,
            items=items,
            reference=None if self._reference is None else self._reference.state,
            artifacts={n: tally.state for n, tally in self._tallies.items() if n not in lost},
            lost=lost,
        )

    def advance(self) -> None:
        """Go on with the next shard, which holds nothing."""
        self.start, self.count = self.start + self.count, 0
        for tally in (self._reference, *self._tallies.values()):
            if tally is not None:
                tally.reset()


def _reason(err: EnginebayError, backend: str, chunk: Sequence[Item], data: str) -> str:
    """Why an engine is lost, in one line, with the number of the item in the source."""
    if isinstance(err, ItemError):
        return f"item {chunk[err.index].number} of {data}: {err}"
    return (
        f"'{backend}' {err.ending}" if isinstance(err, IsolationError) and err.ending else str(err)
    )
